"""What the tests of `capl serve` share: models that are saved without training, a server, requests over plain sockets.

SPDX-License-Identifier: Apache-2.0
"""
import atexit
import base64
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import zlib

from program import CAPL, capl, check

WIDE = """--- capl: 1
capl.manual_seed(5)
local loader = data.loader{source = data.captcha{charset = "0-9", length = {1, 6}, count = 40, fixed = true, widths = "auto"},
  batch = 20, role = "train"}
local Net = nn.class("Net")
function Net:init() self.conv, self.head = nn.Conv2d(1, 6, 3, {stride = 4, padding = 1}), nn.Linear(6 * 15, 11) end
function Net:forward(x)
  local y = self.conv(x):relu()
  local N, C, H, T = unpack(y:size())
  return self.head(y:permute(1, 4, 2, 3):reshape(N * T, C * H)):reshape(N, T, 11)
end
local model = Net()
capl.model(model, {output = "text", charset = loader.charset, decoding = "ctc"})
for batch in loader:epoch(1) do model(batch.image) end
capl.save_model(capl.run_folder() .. "/m.capl", model)
"""

SEVERAL = """--- capl: 1
capl.manual_seed(2)
local loader = data.loader{source = data.slider{count = 8, fixed = true, seed = 3, width = 240, height = 128}, batch = 8, role = "train"}
local Net = nn.class("Net")
function Net:init()
  self.body, self.heat, self.mask = nn.Conv2d(3, 8, 3, {stride = 4, padding = 1}), nn.Conv2d(8, 2, 1), nn.Conv2d(8, 3, 1)
  self.numbers = nn.Linear(8, 2)
end
function Net:forward(x)
  local f = self.body(x):relu()
  local two = self.numbers(f:mean({3, 4}))
  return {heat = self.heat(f), mask = self.mask(f), numbers = two, set = two}
end
local model = Net()
capl.model(model, {outputs = {
  heat = {kind = "points", names = {"a", "b"}, decoding = "heatmap"}, mask = {kind = "mask", names = {"bg", "x", "y"}},
  numbers = {kind = "numbers", names = {"u", "v"}, mean = {1, 2}, std = {2, 3}}, set = {kind = "classes", names = {"red", "blue"}},
}})
for batch in loader:epoch(1) do model(batch.image) end
capl.save_model(capl.run_folder() .. "/m.capl", model)
"""

SERIES = """--- capl: 1
capl.manual_seed(4)
local set = data.series(data.pm25{days = 60, seed = 1}, {target = "pm25", features = {"t2m", "blh"}, window = 5})
local loader = data.loader{source = set.train, role = "train", batch = 8, workers = 0}
local Net = nn.class("Net")
function Net:init() self.head = nn.Linear(10, 1) end
function Net:forward(x) return self.head(x:reshape(-1, 10)) end
local model = Net()
capl.model(model, {output = "numbers"})
for batch in loader:epoch(1) do model(batch.input) end
capl.save_model(capl.run_folder() .. "/m.capl", model)
"""


def make_model(name, recipe):
    """-> the folder of the model that the recipe saves"""
    with open(name + ".lua", "w", encoding="utf-8") as file:
        file.write(recipe)
    status, out, err = capl(name + ".lua")
    check(status == 0, f"the model {name} is saved", out + err)
    return f"runs/{name}/m.capl"


def make_images():
    """Images of several widths, of one and of three channels. -> paths"""
    status, out, err = capl("-e", "data.save_captchas{dir = 'images', count = 24, seed = 9, charset = '0-9', length = {1, 6}}")
    check(status == 0, "images", out + err)
    return sorted(os.path.join("images", name) for name in os.listdir("images"))


def predictions(model, paths, *options):
    """-> {path: what capl predict --json says, without the path}"""
    status, out, err = capl("predict", model, *paths, "--json", *options)
    check(status == 0, "predict", err)
    said = [json.loads(line) for line in out.splitlines()]
    return {one.pop("path"): one for one in said}


def read(path):
    with open(path, "rb") as file:
        return file.read()


def png(width, height, rows=None):
    """The bytes of a gray PNG; rows: other data than the rows that belong to that size."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    data = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(height)) if rows is None else rows)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def form(data, name="image", filename="a.png", boundary="--x1"):
    """-> body and Content-Type of a form with one file"""
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\nContent-Type: image/png\r\n\r\n'
    return head.encode() + data + f"\r\n--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def in_json(data, prefix=""):
    return json.dumps({"image": prefix + base64.b64encode(data).decode()}).encode(), "application/json"


class Server:
    """A running `capl serve`; its port is the one that it prints."""

    def __init__(self, model, *options, env=None):
        self.process = subprocess.Popen([CAPL, "serve", model, "--port=0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})})
        atexit.register(self.process.kill)  # of a test that fails
        self.first = self.process.stdout.readline() + self.process.stdout.readline()
        found = re.search(r"at http://[^ ]*:(\d+)/\n", self.first)
        if not found:
            self.process.kill()
            check(False, "the server starts", self.first + self.process.stderr.read())
        self.port = int(found[1])

    def ask(self, method, path, body=None, kind=None, headers=None, timeout=30):
        """-> status, body, headers of the answer"""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            client.request(method, path, body=body, headers={**({"Content-Type": kind} if kind else {}), **(headers or {})})
            answer = client.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            client.close()

    def post(self, body, kind=None, **options):
        """-> status, the JSON of the answer"""
        status, text, _ = self.ask("POST", "/predict", body, kind, **options)
        return status, json.loads(text)

    def raw(self, *pieces, timeout=20, pause=0.0):
        """Sends bytes as they are; -> all that comes back until the server closes."""
        got = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            try:
                for piece in pieces:
                    s.sendall(piece)
                    if pause:
                        s.settimeout(pause)
                        try:
                            got += s.recv(65536)
                            if got:
                                break
                        except socket.timeout:
                            pass
                s.settimeout(timeout)
                while True:
                    more = s.recv(65536)
                    if not more:
                        return got
                    got += more
            except ConnectionError:
                return got

    def health(self):
        return json.loads(self.ask("GET", "/health")[1])

    def end(self, how=signal.SIGTERM):
        """-> exit status, all output"""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=40)
        return self.process.returncode, self.first + out + err
