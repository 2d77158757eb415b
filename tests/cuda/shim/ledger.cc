/* ledger.cc -- how many bytes of device memory each node of a launched graph reads and writes (CAPL_SHIM_LEDGER).
**
** All device memory is closed before a node runs. The first read and the first write of a page fault, are counted, and
** are let through from then on: what counts is the memory a node needs, whatever it finds in caches later. Whole pages:
** figures of two batch sizes, subtracted, leave what an image costs.
** SPDX-License-Identifier: Apache-2.0
*/
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include "runtime.h"

enum { PAGE = 4096 };

static int ledger_to = -1;
static struct sigaction other_faults;
static size_t pages_read, pages_written;

#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__
enum { ERROR_OF_WRITE = 2 };

/* A fault elsewhere is somebody else's: it comes again, without this handler. */
static void at_fault(int, siginfo_t *info, void *context)
{
  bool writes = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & ERROR_OF_WRITE;
  if (!device_memory_let(info->si_addr, PAGE, writes)) {
    sigaction(SIGSEGV, &other_faults, nullptr);
    return;
  }
  (writes ? pages_written : pages_read)++;
}

/* Of each process its own file. */
__attribute__((constructor)) static void open_ledger()
{
  char name[4096];
  const char *ledger = getenv("CAPL_SHIM_LEDGER");
  if (!ledger || !*ledger) return;
  snprintf(name, sizeof name, "%s.%d", ledger, (int)getpid());
  ledger_to = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static void watch_faults()
{
  struct sigaction action = {};
  action.sa_sigaction = at_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &other_faults);
}
#else
static void watch_faults() {}
#endif

bool ledger_on()
{
  return ledger_to >= 0;
}

void ledger_line(const char *text)
{
  if (ledger_on()) dprintf(ledger_to, "%s\n", text);
}

cudaError_t ledger_run(const work &node)
{
  pages_read = pages_written = 0;
  device_memory_protect(false);
  watch_faults();
  cudaError_t error = node.run();
  sigaction(SIGSEGV, &other_faults, nullptr);
  device_memory_protect(true);
  dprintf(ledger_to, "%zu %zu %s\n", pages_read * PAGE, pages_written * PAGE, node.name.c_str());
  return error;
}
