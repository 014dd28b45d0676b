# LibTorch for the CPU from the wheel at TORCH_FOLDER. The wheel's own package demands a CUDA toolkit.
add_library(wheel_torch INTERFACE)
target_include_directories(wheel_torch SYSTEM INTERFACE
                           ${TORCH_FOLDER}/include ${TORCH_FOLDER}/include/torch/csrc/api/include)
target_link_libraries(wheel_torch INTERFACE -Wl,--no-as-needed ${TORCH_FOLDER}/lib/libtorch_cpu.so
                                            ${TORCH_FOLDER}/lib/libc10.so)
set(TORCH_LIBRARIES wheel_torch)
set(Torch_FOUND TRUE)
