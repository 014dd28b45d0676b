#include "harness/launch/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "reports/base/error.h"

namespace lockstep {

UniqueFd listen_on(const std::string& address, int port, int& bound) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (port != 0) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address.c_str(), &name.sin_addr);
  socklen_t size = sizeof(name);
  auto* const generic = reinterpret_cast<sockaddr*>(&name);
  if (!socket.valid() || ::bind(socket.get(), generic, size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 || ::getsockname(socket.get(), generic, &size) != 0) {
    throw nowhere_to_meet(address, port, ::strerror(errno));
  }
  bound = ntohs(name.sin_port);
  return socket;
}

}  // namespace lockstep
