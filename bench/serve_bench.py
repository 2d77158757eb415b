#!/usr/bin/env python3
"""Requests per second of `capl serve`, and of ddddocr's service with the same network as an ONNX file.

usage: serve_bench.py capl CAPL MODEL IMAGES [REQUESTS] [CLIENTS]      MODEL: a folder NAME.capl
       serve_bench.py ddddocr CAPL MODEL IMAGES [REQUESTS] [CLIENTS]   capl export --format=ddddocr, then ddddocr.api.run_server
(In ddddocr 1.6.1 the service of `python -m ddddocr api` answers 500 to every image: it calls classification with an option that is gone.)
Both get the same images as base64 in JSON, from CLIENTS (8) clients that each wait for an answer before the next request, over
connections that stay open. Prints one line of JSON: step_ms of a request (1000 / requests per second), median and 99th percentile of
the wait, memory of the server at its peak, how many texts fit the names of the images. Status 3 says what is not installed.
SPDX-License-Identifier: Apache-2.0
"""
import base64
import http.client
import importlib.util
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time


def missing(what):
    print(what, file=sys.stderr)
    sys.exit(3)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


# ---- the two services: how each is started and asked, and where its text is ------------------------------------------

def start_capl(capl, model, _):
    port = free_port()
    return subprocess.Popen([capl, "serve", model, f"--port={port}"], stdout=subprocess.DEVNULL), port, "/predict"


def start_ddddocr(capl, model, folder):
    for name in ("ddddocr", "fastapi", "uvicorn", "python_multipart"):
        if not importlib.util.find_spec(name):
            missing(f"{name} is not installed for {sys.executable}: pip install ddddocr fastapi uvicorn python-multipart")
    done = subprocess.run([capl, "export", model, "--format=ddddocr", f"--out={folder}"], capture_output=True, text=True, check=False)
    if not os.path.exists(folder + "/charsets.json"):
        sys.exit("capl export: " + (done.stdout + done.stderr).strip().split("\n")[0])
    port = free_port()
    code = f"import ddddocr.api; ddddocr.api.run_server('127.0.0.1', {port}, log_level='error')"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files = json.dumps({"import_onnx_path": folder + "/model.onnx", "charsets_path": folder + "/charsets.json"})
    wait_until_ready(process, port, "/initialize", files, lambda answer: answer.get("success"))
    return process, port, "/ocr"


def text_of(answer):
    """{"text": …} of capl, {"data": {"text": …}} of ddddocr; None: neither"""
    return answer["text"] if "text" in answer else (answer.get("data") or {}).get("text")


# ---- measuring -------------------------------------------------------------------------------------------------------

def ask(connection, path, body):
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    return json.loads(text) if answer.status == 200 else {}


def wait_until_ready(process, port, path, body, ready):
    for _ in range(600):
        try:
            if ready(ask(http.client.HTTPConnection("127.0.0.1", port, timeout=30), path, body)):
                return
        except (OSError, ValueError):
            pass
        if process.poll() is not None:
            sys.exit(f"the service ended with status {process.returncode}")
        time.sleep(0.1)
    sys.exit(f"{path} of the service does not answer within a minute")


def peak_bytes(pid):
    """Of a process and its children."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            total += sum(peak_bytes(int(child)) for child in file.read().split())
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return total + 1024 * int(re.search(r"VmHWM:\s+(\d+)", file.read())[1])


def measure(port, path, bodies, requests, clients):
    """-> seconds of all, of each request, texts that were right"""
    waits, right, lock = [], [0], threading.Lock()

    def client(k):
        connection, mine, fits = http.client.HTTPConnection("127.0.0.1", port, timeout=120), [], 0
        for i in range(k, requests, clients):
            body, label = bodies[i % len(bodies)]
            since = time.perf_counter()
            text = text_of(ask(connection, path, body))
            mine.append(time.perf_counter() - since)
            fits += text == label
        with lock:
            waits.extend(mine)
            right[0] += fits
    threads = [threading.Thread(target=client, args=(k,)) for k in range(clients)]
    since = time.perf_counter()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return time.perf_counter() - since, sorted(waits), right[0]


def main():
    if len(sys.argv) < 5 or sys.argv[1] not in ("capl", "ddddocr"):
        sys.exit(__doc__)
    kind, capl, model, images = sys.argv[1:5]
    requests, clients = [int(word) for word in sys.argv[5:7] + ["1000", "8"][len(sys.argv[5:7]):]]
    bodies = []
    for name in sorted(os.listdir(images)):
        with open(os.path.join(images, name), "rb") as file:
            bodies.append((json.dumps({"image": base64.b64encode(file.read()).decode()}), name.split("_")[0]))
    with tempfile.TemporaryDirectory() as folder:
        process, port, path = {"capl": start_capl, "ddddocr": start_ddddocr}[kind](capl, model, folder)
        try:
            wait_until_ready(process, port, path, bodies[0][0], lambda answer: text_of(answer) is not None)
            measure(port, path, bodies, min(requests, 100), clients)
            seconds, waits, right = measure(port, path, bodies, requests, clients)
            peak = peak_bytes(process.pid)
        finally:
            process.terminate()
            process.wait(30)
    print(json.dumps({"case": kind, "step_ms": 1e3 * seconds / requests, "images": 1, "requests_per_s": requests / seconds,
                      "median_ms": 1e3 * statistics.median(waits), "p99_ms": 1e3 * waits[int(0.99 * (len(waits) - 1))],
                      "right": right, "requests": requests, "clients": clients, "peak_rss_bytes": peak}))


main()
