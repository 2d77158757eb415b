/* loopback.c -- libcapl_loopback: lets a process listen on this host alone, whichever address it asks for.
**
** Loaded into mpirun (LD_PRELOAD) when all ranks are on this host. Its control ports are open to every network
** otherwise: Open MPI 4 binds them to all addresses whatever oob_tcp_if_include says, and Open MPI 5 refuses to start
** with it. SPDX-License-Identifier: Apache-2.0
*/
#define _GNU_SOURCE
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int bind(int fd, const struct sockaddr *address, socklen_t size)
{
  struct sockaddr_in four;
  struct sockaddr_in6 six;
  if (address && size == sizeof four && address->sa_family == AF_INET) {
    memcpy(&four, address, size);
    if (four.sin_addr.s_addr == htonl(INADDR_ANY)) four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return (int)syscall(SYS_bind, fd, &four, size);
  }
  if (address && size == sizeof six && address->sa_family == AF_INET6) {
    memcpy(&six, address, size);
    if (IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr)) six.sin6_addr = in6addr_loopback;
    return (int)syscall(SYS_bind, fd, &six, size);
  }
  return (int)syscall(SYS_bind, fd, address, size);
}
