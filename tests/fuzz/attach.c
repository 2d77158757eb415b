/* attach.c -- fuzz target: any bytes at the socket of a run, or of its client: frames are read until one is none.
** SPDX-License-Identifier: Apache-2.0
*/
#include "fuzz.h"

#include <sys/socket.h>

#include "program/attach/socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  int ends[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  FUZZ_CHECK(send(ends[0], data, size, MSG_NOSIGNAL) == (ssize_t)size); /* at most 4096 bytes, which the socket holds */
  shutdown(ends[0], SHUT_WR);
  size_t read = 0;
  attach_frame frame;
  while (attach_receive(ends[1], &frame)) {
    FUZZ_CHECK(frame.text[frame.length] == '\0' && frame.length <= ATTACH_MOST);
    FUZZ_CHECK(memcmp(frame.text, data + read + 5, frame.length) == 0 && frame.kind == (char)data[read + 4]);
    read += 5 + frame.length;
    FUZZ_CHECK(read <= size && attach_send(ends[1], frame.kind, frame.text, frame.length));
    free(frame.text);
    char back[4096];
    for (size_t n = 5 + frame.length; n > 0;) {
      ssize_t got = recv(ends[0], back, n < sizeof back ? n : sizeof back, 0);
      FUZZ_CHECK(got > 0);
      n -= (size_t)got;
    }
  }
  FUZZ_CHECK(!frame.text);
  close(ends[0]), close(ends[1]);
  return 0;
}
