#!/usr/bin/env python3
"""browser.py URL [WIDTH HEIGHT light|dark FILE] < SCRIPT: opens a page in headless Chromium and runs a script in it.

The script is the body of an async function; what it returns is printed as {"value": …, "said": […]}, where said holds everything
that the browser had to complain about, and what the page wrote to its console. In it, `await press("Tab")` presses a key as a user would.
FILE gets a picture of the page at the end, or the printed pages if its name ends with .pdf. It speaks the DevTools protocol over a pipe, so that
there is no port and nothing to install. The status is 77 if there is no browser.
"""
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

NAMES = ["chromium", "google-chrome"]
LIMIT_SECONDS = 120
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe"]

# Keys that scripts press, with what a keyboard would send.
KEYS = {
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Escape": {"code": "Escape", "windowsVirtualKeyCode": 27},
    "ArrowRight": {"code": "ArrowRight", "windowsVirtualKeyCode": 39},
    "ArrowLeft": {"code": "ArrowLeft", "windowsVirtualKeyCode": 37},
    " ": {"code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
}
PRESS = "const press = (key) => new Promise((done) => { window.pressed = done; pressKey(key); });"


class Browser:
    def __init__(self, program, profile):
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()

        def in_child():
            # Via high numbers: one of the pipes may have the number that the other must get.
            high = [os.dup2(fd, 100 + at) for at, fd in enumerate((to_browser, from_browser))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [program, *FLAGS, f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(command, preexec_fn=in_child, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.left, self.number, self.session, self.said = b"", 0, None, []

    def read(self):
        while b"\0" not in self.left:
            more = os.read(self.into, 1 << 20)
            if not more:
                sys.exit("browser.py: the browser went away")
            self.left += more
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        name, params = event.get("method"), event.get("params", {})
        if name == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(argument.get("value", argument.get("description"))) for argument in params["args"]))
        elif name == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description") or details["text"])
        elif name == "Log.entryAdded":
            self.said.append(params["entry"]["text"])
        elif name == "Runtime.bindingCalled" and params["name"] == "pressKey":
            self.press(params["payload"])
        elif name == "Page.javascriptDialogOpening":
            self.said.append(f"dialog: {params['message']}")
            self.send("Page.handleJavaScriptDialog", accept=True)

    def press(self, key):
        sent = {"key": key, **KEYS.get(key, {"text": key})}
        self.send("Input.dispatchKeyEvent", type="keyDown", **sent)
        self.send("Input.dispatchKeyEvent", type="keyUp", **{name: value for name, value in sent.items() if name != "text"})
        self.send("Runtime.evaluate", expression="window.pressed()")

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **params):
        number = self.send(method, **params)
        while (message := self.read()).get("id") != number:
            self.note(message)
        if "error" in message:
            sys.exit(f"browser.py: {method}: {message['error']['message']}")
        return message["result"]

    def wait_for(self, event):
        while (message := self.read()).get("method") != event:
            self.note(message)

    def open(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log"]:
            self.call(f"{domain}.enable")
        self.call("Runtime.addBinding", name="pressKey")

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=f"(async () => {{{PRESS}{script}\n}})()", awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            self.said.append("the script: " + (details.get("exception", {}).get("description") or details["text"]))
        return result["result"].get("value")


def main():
    url, *view = sys.argv[1:]
    # A browser whose pipe is closed ends by itself.
    signal.alarm(LIMIT_SECONDS)
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if not program or not shutil.which(program):
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        browser.open()
        if view:
            browser.call("Emulation.setDeviceMetricsOverride", width=int(view[0]), height=int(view[1]), deviceScaleFactor=1, mobile=False)
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": view[2]}])
        browser.call("Page.navigate", url=url)
        browser.wait_for("Page.loadEventFired")
        value = browser.run(sys.stdin.read())
        if len(view) > 3:
            made = browser.call("Page.printToPDF", printBackground=True) if view[3].endswith(".pdf") else browser.call("Page.captureScreenshot")
            with open(view[3], "wb") as file:
                file.write(base64.b64decode(made["data"]))
        print(json.dumps({"value": value, "said": browser.said}))
        browser.session = None
        browser.call("Browser.close")
        browser.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
