from traincheck import annotate_stage
import os
os.environ['TRAINCHECK_OUTPUT_DIR'] = "/tmp/tmpeq205_jz/traces"

from traincheck.utils import register_custom_excepthook
if os.environ.get("TRAINCHECK_DEBUG") == "1":
    print("TRAINCHECK_DEBUG is set to 1, registering custom excepthook")
    register_custom_excepthook(True)

import traincheck.config.config as general_config
general_config.INSTR_DESCRIPTORS = False
general_config.MODEL_TRACKER_STYLE = 'proxy'
import traincheck.instrumentor.proxy_wrapper.proxy_config as proxy_config
proxy_config.__dict__.update({'proxy_log_dir': '/tmp/tmpeq205_jz/traces/proxy_log.json'})

from traincheck.instrumentor.proxy_wrapper.proxy import Proxy

import glob
import importlib
from traincheck.instrumentor.proxy_wrapper.proxy_config import auto_observer_config
spec = importlib.util.find_spec('traincheck')
if spec and spec.origin:
    traincheck_folder = os.path.dirname(spec.origin)
else:
    raise Exception("traincheck is not installed properly")
enable_auto_observer_depth = auto_observer_config["enable_auto_observer_depth"]
neglect_hidden_func = auto_observer_config["neglect_hidden_func"]
neglect_hidden_module = auto_observer_config["neglect_hidden_module"]
observe_then_unproxy = auto_observer_config["observe_then_unproxy"]
observe_up_to_depth = auto_observer_config["observe_up_to_depth"]
from traincheck.static_analyzer.graph_generator.call_graph_parser import add_observer_given_call_graph

log_files = glob.glob(
    os.path.join(traincheck_folder, "static_analyzer", "func_level", "*.log")
)
for log_file in log_files:
    add_observer_given_call_graph(
        log_file,
        depth=enable_auto_observer_depth,
        observe_up_to_depth=observe_up_to_depth,
        neglect_hidden_func=neglect_hidden_func,
        neglect_hidden_module=neglect_hidden_module,
        observe_then_unproxy=observe_then_unproxy,
    )
annotate_stage('init')
'The job of watch_overhead.py as a script of its own, for tools that observe whole scripts: prints, of rank 0,\nthe median CPU time of a step in ms. tests/bench/peers.py runs it with several tools.'
import os
import statistics
import time
import torch
from traincheck.instrumentor.tracer import Instrumentor
Instrumentor(torch, scan_proxy_in_args=True, use_full_instr=False, funcs_to_instr=None, API_dump_stack_trace=False, sampling_interval=1, warm_up_steps=1).instrument()
import torch.distributed as dist
from traincheck.instrumentor.tracer import Instrumentor
Instrumentor(dist, scan_proxy_in_args=True, use_full_instr=False, funcs_to_instr=None, API_dump_stack_trace=False, sampling_interval=1, warm_up_steps=1).instrument()
from torch import nn
from traincheck.instrumentor.tracer import Instrumentor
Instrumentor(nn, scan_proxy_in_args=True, use_full_instr=False, funcs_to_instr=None, API_dump_stack_trace=False, sampling_interval=1, warm_up_steps=1).instrument()
STEPS, WARM = (int(os.environ.get('BENCH_STEPS', '20')), 4)
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group('gloo')
layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, batch_first=True)
module = nn.Sequential(nn.Embedding(1000, 384), nn.TransformerEncoder(layer, 6), nn.Linear(384, 1000))
module = Proxy(module, recurse=True, logdir=proxy_config.proxy_log_dir, var_name='module')
model = nn.parallel.DistributedDataParallel(module)
optimizer = torch.optim.AdamW(model.parameters())
monitor = None
if 'BENCH_MSPROBE' in os.environ:
    from msprobe.pytorch.monitor.module_hook import TrainerMon
    monitor = TrainerMon(os.environ['BENCH_MSPROBE'], params_have_main_grad=False)
    monitor.set_monitor(model, optimizer=optimizer, grad_acc_steps=1)
times = []
for _ in range(STEPS):
    from traincheck.instrumentor.control import start_step
    start_step()
    tokens = torch.randint(0, 1000, (4, 128))
    begin = time.process_time()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    annotate_stage('training')
    optimizer.step()
    times.append(1000 * (time.process_time() - begin))
if dist.get_rank() == 0:
    print('median CPU time of a step: %.2f ms' % statistics.median(times[WARM:]), flush=True)
dist.destroy_process_group()