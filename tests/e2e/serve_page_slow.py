"""The page of `capl serve` in headless Chromium: an image is chosen in its form, and its text appears.

Chromium is driven through its pipe (--remote-debugging-pipe). Without Chromium the test is skipped, except in CI.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from program import check, in_empty_folder
from serving import WIDE, Server, make_images, make_model, predictions


class Browser:
    """One page. Commands of the DevTools protocol are JSON that ends in a zero byte, on descriptors 3 and 4."""

    def __init__(self, chromium, profile):
        child_in, self.to = os.pipe()
        self.of, child_out = os.pipe()
        os.set_blocking(self.of, False)

        def descriptors():
            a, b = os.dup(child_in), os.dup(child_out)  # neither is 3 or 4 while they are copied
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(
            [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(child_in)
        os.close(child_out)
        self.rest, self.n, self.session, self.problems = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.call(domain + ".enable")

    def read(self, until):
        """-> the next message"""
        while b"\0" not in self.rest:
            if time.monotonic() > until:
                sys.exit("FAILED: Chromium does not answer")
            try:
                more = os.read(self.of, 1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            if not more:
                sys.exit("FAILED: Chromium ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        """-> the result of a command; what goes wrong in the page meanwhile is kept"""
        self.n += 1
        command = {"id": self.n, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + 60
        while True:
            message = self.read(until)
            if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(message["params"])
            if message.get("id") == self.n:
                if "error" in message:
                    sys.exit(f"FAILED: {method}: {message['error']}")
                return message["result"]

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression, what):
        until = time.monotonic() + 30
        while not self.value(expression):
            if time.monotonic() > until:
                sys.exit(f"FAILED: {what}\n{self.value('document.body.innerText')}")
            time.sleep(0.05)

    def choose(self, path):
        """Sends a file as a reader does who chooses it. -> the text that the page shows, its class"""
        self.value("document.getElementById('time').textContent = ''")
        node = self.call("DOM.querySelector", nodeId=self.call("DOM.getDocument")["root"]["nodeId"], selector="#file")["nodeId"]
        self.call("DOM.setFileInputFiles", files=[os.path.abspath(path)], nodeId=node)
        self.wait_for("document.getElementById('time').textContent", f"an answer for {path}")
        return self.value("document.getElementById('said').innerText"), self.value("document.getElementById('said').className")


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        if os.environ.get("CI"):
            sys.exit("FAILED: chromium is not installed (scripts/packages)")
        print("skipped: ######## NO CHROMIUM HERE: nobody has tried the page of capl serve (apt-get install chromium) ########")
        sys.exit(77)
    model = make_model("wide", WIDE)
    expected = predictions(model, make_images()[:3])
    with open("wrong.png", "wb") as file:
        file.write(b"no image")
    server = Server(model)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(chromium, profile)
        try:
            browser.call("Page.navigate", url=f"http://127.0.0.1:{server.port}/")
            browser.wait_for("document.readyState == 'complete' && document.getElementById('file') != null", "the page loads")
            for path, said in expected.items():
                check(browser.choose(path) == (said["text"], ""), "the page shows the text of an image", said["text"])
                check(browser.value("document.getElementById('seen').naturalWidth") > 0, "and the image")
            check(not browser.problems, "nothing goes wrong in the page", str(browser.problems))
            text, kind = browser.choose("wrong.png")
            check("PNG" in text and kind == "wrong", "a file that is no image is refused on the page", text)
        finally:
            browser.process.kill()
            browser.process.wait()
    server.process.terminate()
    check(server.process.wait(30) == 0, "the server ends")


in_empty_folder(main)
