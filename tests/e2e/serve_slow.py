"""`capl serve` under 100,000 requests, a tenth of them broken, by many clients: none is lost, none gets another's answer.

CAPL_SERVE_REQUESTS=N sends fewer. SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import os
import random
import threading
import time

from program import check, in_empty_folder
from serving import WIDE, Server, form, in_json, make_images, make_model, png, predictions, read

CLIENTS = 16


def broken(image, r):
    """A wrong body -> body, Content-Type, statuses that fit"""
    some, kind = form(image)
    at = r.randrange(8, len(image))
    return r.choice((
        (image[:at], None, (400, 200)),  # the last bytes of a PNG are not needed
        (image[:at] + bytes([image[at] ^ 255]) + image[at + 1:], None, (400, 200, 413)),  # some bytes matter to nobody, some are its size
        (b"", None, (400,)), (r.randbytes(500), None, (415,)), (b"GIF89a", "image/gif", (415,)), (some[:-9], kind, (400,)),
        (some, "multipart/form-data", (400,)), (b'{"image": "%%%"}', "application/json", (400,)), (b"[", "application/json", (400,)),
        (in_json(image)[0][:-30], "application/json", (400,)), (png(3000, 2000, rows=b""), None, (413,)), (bytes(1200000), None, (413,))))


class Client:
    """Sends its share of the requests over connections that it keeps; counts what it gets."""

    def __init__(self, port, expected, n, seed):
        self.port, self.n, self.random = port, n, random.Random(seed)
        self.images = [(read(path), said) for path, said in expected.items()]
        self.right = self.refused = 0
        self.wrong, self.connection = [], None

    def ask(self, body, kind):
        """-> status, JSON; 0: the connection ended without an answer. Nothing is sent twice."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            self.connection.request("POST", "/predict", body=body, headers={"Content-Type": kind} if kind else {})
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (ConnectionError, http.client.HTTPException) as why:
            self.connection.close()
            self.connection = None
            return 0, str(why)

    def one(self):
        image, said = self.random.choice(self.images)
        if self.random.random() < 0.1:
            body, kind, fits = broken(image, self.random)
            status, answer = self.ask(body, kind)
            fine = status in fits and (status == 200 or "error" in answer)
            fine = fine or status == 0 and len(body) > 1000000  # refused while it was still being sent
            self.refused += fine
        else:
            way = self.random.randrange(3)
            status, answer = self.ask(*((image, None) if way == 0 else form(image) if way == 1 else in_json(image)))
            fine = status == 200 and answer == said
            self.right += fine
        if not fine:
            self.wrong.append((status, answer))

    def run(self):
        for _ in range(self.n):
            self.one()


def main():
    total = int(os.environ.get("CAPL_SERVE_REQUESTS", "100000"))
    wide = make_model("wide", WIDE)
    expected = predictions(wide, make_images())
    server = Server(wide, "--body=1", "--pixels=1", "--time=60")
    clients = [Client(server.port, expected, total // CLIENTS, seed) for seed in range(CLIENTS)]
    threads = [threading.Thread(target=one.run) for one in clients]
    since = time.monotonic()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    seconds = time.monotonic() - since
    wrong = [one for client in clients for one in client.wrong]
    right, refused = sum(client.right for client in clients), sum(client.refused for client in clients)
    now = server.health()
    check(not wrong and right + refused == total // CLIENTS * CLIENTS, f"{right} answered right, {refused} broken ones refused",
          f"{len(wrong)} {wrong[:5]}")
    check(now["queue"] == 0 and now["status_5xx"] == 0 and now["batches"] < now["images"], "nothing is left", str(now))
    print(f"{total} requests in {seconds:.0f} s, {now['images'] / now['batches']:.1f} images in a batch")
    status, out = server.end()
    check(status == 0, "ends", out)


in_empty_folder(main)
