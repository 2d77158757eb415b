"""The example of docs/serve.md for nginx, as it is printed, in front of `capl serve`: key, limits, what is passed on.

nginx is the installed one, else that of Debian's package, unpacked here; without either the test is skipped.
SPDX-License-Identifier: Apache-2.0
"""
import glob
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time

from program import ROOT, check, in_empty_folder
from serving import WIDE, Server, make_images, make_model, predictions, read

KEY = {"X-Api-Key": "CHANGE-ME"}


def skip(why):
    print(f"skipped: ######## {why}: nobody has tried the nginx example of docs/serve.md ########")
    sys.exit(77)


def find_nginx():
    found = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if found:
        return found
    if not shutil.which("apt-get"):
        skip("NO NGINX HERE")
    done = subprocess.run(["apt-get", "-q", "download", "nginx"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip("NO NGINX TO BE HAD FROM DEBIAN")
    subprocess.run(["dpkg-deb", "-x", glob.glob("nginx_*.deb")[0], "nginx"], check=True)
    return os.path.abspath("nginx/usr/sbin/nginx")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def configuration(port, capl_port):
    """The block of docs/serve.md with ports and certificate of this test, in nginx.conf."""
    with open(os.path.join(ROOT, "docs/serve.md"), encoding="utf-8") as file:
        text = file.read().split("\n## Behind nginx\n")[1]
    block = text.split("\nOnly ")[0]
    for of, to in (("127.0.0.1:8080", f"127.0.0.1:{capl_port}"), ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
                   ("/etc/ssl/captcha.example.org.pem", os.path.abspath("cert.pem")),
                   ("/etc/ssl/private/captcha.example.org.key", os.path.abspath("key.pem"))):
        check(block.count(of) == 1, f"docs/serve.md has {of} once", block)
        block = block.replace(of, to)
    folders = "".join(f"{kind}_temp_path {os.getcwd()}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open("nginx.conf", "w", encoding="utf-8") as file:
        file.write(f"daemon off; master_process off; pid {os.getcwd()}/pid; error_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{folders}{block}\n}}\n")


class Proxy:
    def __init__(self, nginx, server):
        self.port = free_port()
        configuration(self.port, server.port)
        command = [nginx, "-p", os.getcwd(), "-c", os.path.abspath("nginx.conf"), "-e", "stderr"]
        done = subprocess.run(command + ["-t"], capture_output=True, text=True, check=False)
        if "error while loading shared libraries" in done.stderr:
            skip("NGINX LACKS A LIBRARY (apt-get install nginx)")
        check(done.returncode == 0 and "test is successful" in done.stderr, "nginx reads the example", done.stderr)
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        check(False, "nginx listens")

    def ask(self, method, path, body=None, headers=None):
        """-> status, body"""
        client = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=30, context=ssl.create_default_context(cafile="cert.pem"))
        try:
            client.request(method, path, body, headers or {})
            answer = client.getresponse()
            return answer.status, answer.read()
        finally:
            client.close()


def passes(proxy, expected):
    for path, said in expected.items():
        status, body = proxy.ask("POST", "/predict", read(path), KEY)
        check(status == 200 and json.loads(body) == said, "an image through nginx", str(body))
        check(proxy.ask("POST", "/predict", read(path))[0] == 401, "no key, no answer")
    for page in ("/", "/metrics", "/health"):
        check(proxy.ask("GET", page, headers=KEY)[0] not in (200, 502), f"{page} stays on the machine")
    status, body = proxy.ask("POST", "/predict", b"GIF89a", KEY)
    check(status == 415 and "error" in json.loads(body), "errors of capl serve come through", str(body))
    check(proxy.ask("POST", "/predict", None, {**KEY, "Content-Length": str(8 * 2**20 + 1)})[0] == 413, "a body of more than 8 MB")


def main():
    nginx = find_nginx()
    done = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                           "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"], capture_output=True, text=True, check=False)
    check(done.returncode == 0, "a certificate", done.stderr)
    model = make_model("wide", WIDE)
    expected = predictions(model, make_images()[:3])
    server = Server(model)
    proxy = Proxy(nginx, server)
    try:
        passes(proxy, expected)
    finally:
        proxy.process.kill()
        proxy.process.wait()


in_empty_folder(main)
