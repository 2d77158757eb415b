"""`capl serve`: answers of every form of a body and kind of output are those of predict, also of many clients at once; what is wrong
with a request is said with the right status; limits; slow and hostile clients; the end.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import json
import os
import re
import shutil
import signal
import socket
import threading
import time

from program import capl, check, in_empty_folder
from serving import SERIES, SEVERAL, WIDE, Server, form, in_json, make_images, make_model, png, predictions, read

QUICK = ("--wait=1", "--time=1", "--pixels=1", "--body=1", "--memory=6")


def refused(wide):
    for words, expected in {
            ("nothing.capl",): "nothing.capl", (): "capl serve takes one model; usage: capl serve MODEL", (wide, "more"): "takes one model",
            (wide, "--port=65536"): "--port", (wide, "--wait=-1"): "--wait is a number of milliseconds from 0 to 10000, not -1",
            (wide, "--body=0"): "--body must be above 0", (wide, "--pixels=65"): "--pixels is at most 64 megapixels",
            (wide, "--threads=9", "--connections=8"): "--connections=8 is fewer than --threads=9",
            (wide, "--host=no.such.host.invalid"): "--host=no.such.host.invalid", (wide, "--host=192.0.2.1"): "--host is an address of this machine",
            (wide, "--top=0"): "--top"}.items():
        status, out, err = capl("serve", *words)
        check(status == 1 and expected in err, f"refuses {words}", out + err)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, _, err = capl("serve", wide, f"--port={taken.getsockname()[1]}")
        check(status == 1 and "Address already in use" in err and "--port=0" in err, "a taken port", err)


def answers(server, expected):
    """Every form of a body, of images of every width."""
    for path, said in expected.items():
        data = read(path)
        for body, kind in ((data, None), (data, "image/png"), (data, "application/x-www-form-urlencoded"), form(data),
                           form(data, name="photo"), form(data, boundary="-" * 60), in_json(data), in_json(data, "data:image/png;base64,")):
            status, answer = server.post(body, kind)
            check_quietly(status == 200 and same(answer, said), f"{path} as {kind}", f"{status} {answer} {said}")
    print("ok", len(expected), "images in eight forms")
    status, text, _ = server.ask("POST", "/", data)
    check(status == 200 and same(json.loads(text), said), "POST / is the same", text)
    halves = [f"{len(half):x}\r\n".encode() + half + b"\r\n" for half in (data[:100], data[100:])]
    got = server.raw(b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n", *halves, b"0\r\n\r\n")
    check(b" 200 OK" in got and same(json.loads(got.split(b"\r\n\r\n")[1]), said), "a chunked body", got)


def at_once(calls):
    threads = [threading.Thread(target=call) for call in calls]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def check_quietly(condition, what, seen):
    if not condition:
        check(False, what, seen)


def same(a, b):
    """Equal but for the rounding of sums, whose order follows the size of a batch."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= 1e-3 * max(abs(a), abs(b)) + (2e-4 if abs(b) > 1e-3 else 0)
    return a == b


def crowd(server, expected, threads=12, times=3):
    """Many clients at once: each gets the answer to its own image."""
    wrong, paths = [], list(expected)
    before = server.health()

    def client(k):
        for i in range(times * len(paths)):
            path = paths[(i * 7 + k) % len(paths)]
            status, answer = server.post(*(form(read(path)) if i % 2 else (read(path), None)))
            if status != 200 or not same(answer, expected[path]):
                wrong.append((path, status, answer))
    at_once([lambda k=k: client(k) for k in range(threads)])
    check(not wrong, f"{threads} clients at once", str(wrong[:3]))
    now = server.health()
    images, batches = now["images"] - before["images"], now["batches"] - before["batches"]
    check(images == threads * times * len(paths) and batches < images, "they were computed in batches", f"{images} {batches}")


def wrong_requests(server, image):
    some = form(image)
    cut, kind = form(image)[0][:-20], form(image)[1]
    for what, body, kind, status, text in (
            ("an empty body", b"", None, 400, "empty"), ("a text", b"hello", "text/plain", 415, "neither a PNG nor a JPEG"),
            ("a GIF", b"GIF89a" + bytes(50), "image/gif", 415, "neither a PNG nor a JPEG"),
            ("half a PNG", image[:len(image) // 2], None, 400, "the image: "), ("a broken PNG", image[:60] + bytes(40) + image[100:], None, 400, "the image: "),
            ("a broken JPEG", b"\xff\xd8\xff\xe0" + bytes(99), "image/jpeg", 400, "the image: "),
            ("no JSON", b"{", "application/json", 400, "JSON: "), ("a list", b"[1]", "application/json", 400, "JSON: an object was expected"),
            ("JSON without an image", b"{}", "application/json", 400, "no image"), ("a number", b'{"image": 3}', "application/json", 400, "base64"),
            ("bad base64", b'{"image": "iVBO*w0K"}', "application/json", 400, "character 5 is not base64"),
            ("cut base64", b'{"image": "iVBOR"}', "application/json", 400, "middle of a group"),
            ("base64 behind its end", b'{"image": "iVBO=w0K"}', "application/json", 400, "character 5 is not base64"),
            ("base64 of a text", b'{"image": "aGVsbG8="}', "application/json", 415, "neither a PNG nor a JPEG"),
            ("an unknown key", b'{"picture": "aGVsbG8="}', "application/json", 400, "unknown key 'picture'; the model takes image"),
            ("a key twice", b'{"image": "aGVs", "image": "aGVs"}', "application/json", 400, "JSON: "),
            ("deep JSON", b'{"image": ' + b"[" * 5000, "application/json", 400, "JSON: "),
            ("no boundary", some[0], "multipart/form-data", 400, "no boundary"), ("another boundary", some[0], "multipart/form-data; boundary=y", 400, "not in the body"),
            ("a form that is cut", cut, kind, 400, "closing boundary"), ("an empty form", b"----x1--\r\n", kind, 400, "no part is a file"),
            ("a form without a file", some[0].replace(b'; filename="a.png"', b"").replace(b'name="image"', b'name="z"'), kind, 400, "no part is a file"),
            ("two files", some[0].replace(b"--x1--", b"--x1") + some[0], kind, 400, "two images"),
            ("an empty file", form(b"")[0], kind, 400, "the image is empty"), ("many pixels", png(1024, 1024), None, 413, "--pixels"),
            ("a PNG bomb", png(30000, 30000, rows=bytes(1000)), None, 413, "--pixels"), ("a larger one", png(60000, 60000, rows=b""), None, 413, "megapixels"),
            ("few rows", png(100, 100, rows=bytes(50)), None, 400, "the image: ")):
        got, said = server.post(body, kind)
        check(got == status and text in said.get("error", "") and list(said) == ["error"], f"{what}: {status}", f"{got} {said}")
    for method, path, status in (("GET", "/predict", 405), ("PUT", "/predict", 405), ("POST", "/health", 405), ("DELETE", "/", 405), ("GET", "/x", 404),
                                 ("POST", "/x", 404), ("GET", "/../../etc/passwd", 404), ("HEAD", "/health", 200), ("HEAD", "/", 200)):
        got, text, headers = server.ask(method, path, image if method in ("POST", "PUT") else None)
        check(got == status and (method == "HEAD" and text == b"" or "error" in json.loads(text)), f"{method} {path}: {status}", f"{got} {text}")
        check_quietly(status != 405 or "Allow" in headers, "405 names the methods", str(headers))


def hostile(server, image):
    """Malformed HTTP, huge and slow uploads; the server goes on."""
    for what, data in (("a bare line", b"hello\r\n\r\n"),
                       ("a bad length", b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"),
                       ("a length of letters", b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n"),
                       ("bad chunks", b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
                       ("no host", b"GET /health HTTP/1.1\r\n\r\n"), ("long headers", b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20000 + b"\r\n")):
        got = server.raw(data)
        check(got == b"" or got.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), f"{what} is refused", got[:300])
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\n"
    since = time.monotonic()
    got = server.raw(head + b"Content-Length: 10000000000\r\n\r\n" + image)
    check(b" 413 " in got and b"--body" in got and time.monotonic() - since < 4, "10 GB are refused at once", got)
    got = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n", *[b"10000\r\n" + bytes(65536) + b"\r\n"] * 20)
    check(b" 413 " in got and b"--body" in got, "more than --body in chunks", got)
    slow = {"a body that stops": [head + b"Content-Length: 5000\r\n\r\n" + image[:100]],
            "a body that trickles": [head + b"Content-Length: 5000\r\n\r\n"] + [b"x"] * 40,
            "headers that trickle": [b"POST /predict HTTP/1.1\r\n"] + [b"A: b\r\n"] * 40, "nothing": [],
            "no HTTP": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)]}
    got, since = {}, time.monotonic()
    at_once([lambda what=what: got.update({what: (server.raw(*slow[what], pause=0.1), time.monotonic() - since)}) for what in slow])
    for what, (text, seconds) in got.items():
        check(text.startswith(b"HTTP/1.1 408 ") and b"--time" in text and 0.8 < seconds < 6, f"{what}: 408", f"{seconds} {text}")


def limits(wide, image, said):
    """The queue: requests wait for others of their batch, so that it fills."""
    server = Server(wide, "--wait=300", "--queue=2", "--memory=1", "--body=0.6")
    got = []
    at_once([lambda: got.append(server.ask("POST", "/predict", image))] * 4)
    statuses = sorted(one[0] for one in got)
    check(statuses == [200, 200, 429, 429], "a full queue: 429", str(statuses))
    full = next(one for one in got if one[0] == 429)
    check(b"--queue" in full[1] and full[2].get("Retry-After") == "1", "429 says when to try again", str(full))
    check(all(same(json.loads(one[1]), said) for one in got if one[0] == 200), "the others are answered", str(got))
    held = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 600000\r\n\r\n" + bytes(560000)
    with socket.create_connection(("127.0.0.1", server.port)) as other:
        other.sendall(held)
        wait_for(lambda: metric(server, "received_bytes_total") >= 560000)
        got = server.raw(held)
        check(b" 429 " in got and b"--memory" in got, "more than --memory: 429", got)
    wait_for(lambda: server.post(image)[0] == 200)
    status, out = server.end()
    check(status == 0, "ends", out)


def metric(server, name):
    text = server.ask("GET", "/metrics")[1].decode()
    return float(re.search(rf"^capl_serve_{name} (\S+)$", text, re.M)[1])


def wait_for(condition):
    for _ in range(100):
        if condition():
            return
        time.sleep(0.05)
    check(False, "it happens within five seconds")


def pages(server):
    status, text, headers = server.ask("GET", "/")
    check(status == 200 and b"texts of 1 to 6" in text and b'type="file"' in text and headers["Content-Type"] == "text/html; charset=utf-8", "the page", text[:500])
    check(b"http:" not in re.sub(rb"<pre>.*?</pre>", b"", text, flags=re.S) and "default-src 'none'" in headers["Content-Security-Policy"], "nothing from the network", "")
    text = server.ask("GET", "/metrics")[1].decode()
    check(all(re.fullmatch(r'# (HELP|TYPE) capl_serve_\w+ .+|capl_serve_\w+({\w+="[^"]*"})? [-+.e\d]+', line) for line in text.splitlines()), "metrics", text)
    now = server.health()
    counted = sum(int(n) for n in re.findall(r'requests_total{status="4\d\d"} (\d+)', text))
    check(now["status"] == "ok" and now["model"].endswith("m.capl") and now["version"] and counted == now["status_4xx"] > 40, "health", f"{now} {text}")


def several(images):
    """Every kind of output, by fields; pictures."""
    model = make_model("several", SEVERAL)
    expected = predictions(model, images[:4], "--out=said")
    server = Server(model, "--pictures")
    for path, said in expected.items():
        status, answer = server.post(*form(read(path)))
        picture = base64.b64decode(answer["mask"].pop("png"))
        check(status == 200 and same(answer, said), f"all outputs of {path}", f"{answer} {said}")
        check(picture == read(f"said/{os.path.basename(path)[:-4]}_mask.png"), "its mask as PNG")
    status, out = server.end(signal.SIGINT)
    check(status == 0 and "stopped: 4 predictions" in out, "Ctrl-C ends it", out)


def series():
    """A model of numbers: JSON alone."""
    model = make_model("series", SERIES)
    rows = [(20 - d, 3 * d) for d in range(5)]
    with open("rows.csv", "w", encoding="utf-8") as file:
        file.write("t2m,blh\n" + "".join(f"{a},{b}\n" for a, b in rows))
    said = json.loads(capl("predict", model, "rows.csv", "--json")[1])
    server = Server(model)
    name = json.loads(re.search(r"<textarea[^>]*>(.*?)</textarea>", server.ask("GET", "/")[1].decode(), re.S)[1].replace("&quot;", '"'))
    key = next(iter(name))
    status, answer = server.post(json.dumps({key: rows}).encode(), "application/json")
    check(status == 200 and same(answer["numbers"], said["numbers"]), "numbers in, numbers out", f"{answer} {said}")
    for value, text in ((rows[:4], "has 8 numbers; the model takes 10"), ([["x"]], "a list of numbers")):
        status, answer = server.post(json.dumps({key: value}).encode(), "application/json")
        check(status == 400 and text in answer["error"], text, str(answer))
    status, answer = server.post(png(4, 4))
    check(status == 415 and "send JSON" in answer["error"], "an image is none", str(answer))
    check(server.end()[0] == 0, "ends")


def ending(wide, image, said):
    """SIGTERM while requests wait; the model's folder is gone by then."""
    shutil.copytree(wide, "copy.capl")
    server = Server("copy.capl", "--wait=400")
    shutil.rmtree("copy.capl")
    status, answer = server.post(image)
    check(status == 200 and same(answer, said), "goes on when its model is gone")
    got = []
    clients = [threading.Thread(target=lambda: got.append(server.post(image))) for _ in range(3)]
    for one in clients:
        one.start()
    wait_for(lambda: server.health()["queue"] == 3)
    status, out = server.end()
    for one in clients:
        one.join()
    check(status == 0 and "stopped: 4 predictions" in out, "SIGTERM ends it with status 0", f"{status} {out}")
    check(len(got) == 3 and all(status == 200 and same(one, said) for status, one in got), "what it had is answered", str(got))
    with socket.socket() as s:
        check(s.connect_ex(("127.0.0.1", server.port)) != 0, "nobody listens any more")


def sandboxed(server):
    """The worker is confined, where the kernel can."""
    found = re.search(r"sandbox: (.*)", server.first)[1]
    pid = server.process.pid
    worker = read(f"/proc/{pid}/task/{pid}/children").split()[0].decode()
    status = read(f"/proc/{worker}/status").decode()
    check("Landlock" not in found or "and seccomp" in found and "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status, f"sandbox: {found}", status)


def main():
    images, wide = make_images(), make_model("wide", WIDE)
    refused(wide)
    expected = predictions(wide, images)
    check(len({said["text"] for said in expected.values()}) > 5, "the images differ", str(expected))
    path = images[0]
    server = Server(wide, *QUICK)
    sandboxed(server)
    answers(server, dict(list(expected.items())[:6]))
    crowd(server, expected)
    wrong_requests(server, read(path))
    hostile(server, read(path))
    pages(server)
    status, answer = server.post(read(path))
    check(status == 200 and same(answer, expected[path]), "still right after all that")
    status, out = server.end()
    check(status == 0, "ends", out)
    limits(wide, read(path), expected[path])
    several(images)
    series()
    ending(wide, read(path), expected[path])


in_empty_folder(main)
