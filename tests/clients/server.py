"""Starts and ends the server under test: SERVER_CMD with a zoo.cfg as its last argument, in the foreground.

The default is this tree's own binary. With SERVER_CMD naming real-zk.sh the same scenarios run against Apache
ZooKeeper, which is how they are checked themselves.
"""

import os
import shlex
import signal
import socket
import subprocess
import time

import wire

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.environ.get("QUORATE") or os.path.join(ROOT, "target", "release", "quorate")
COMMAND = os.environ.get("SERVER_CMD") or "%s serve --config" % shlex.quote(BINARY)
OURS = "real-zk.sh" not in COMMAND
READY_SECONDS = 60
TICK_MS = 500


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server in a folder of its own.

    `config` replaces or adds keys, a value of None leaves one out; `lines` goes into the file as it is.
    """

    def __init__(self, folder, port=None, data=None, lines="", **config):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.port = port or free_port()
        self.data = data or os.path.join(folder, "data")
        keys = {
            "tickTime": TICK_MS,
            "dataDir": self.data,
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "4lw.commands.whitelist": "*",
            "admin.enableServer": "false",
        }
        keys.update(config)
        self.config = os.path.join(folder, "zoo.cfg")
        with open(self.config, "w") as out:
            out.writelines("%s=%s\n" % kv for kv in keys.items() if kv[1] is not None)
            out.write(lines)
        self.process = None

    @property
    def address(self):
        return "127.0.0.1:%d" % self.port

    def spawn(self):
        self.log = os.path.join(self.folder, "log")
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                shlex.split(COMMAND) + [self.config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start(self):
        """Returns once `srvr` answers with a mode; raises with the log's end if that does not happen."""
        self.spawn()
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if "Mode:" in wire.four_letter(self.port, "srvr"):
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        with open(self.log) as log:
            raise RuntimeError("the server did not come up: %s" % log.read()[-2000:])

    def end(self, number=signal.SIGTERM):
        """Sends the signal and waits; returns the exit status."""
        if self.process is None:
            return None
        self.process.send_signal(number)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.process = None
        return status

    def kill(self):
        if self.process is not None:
            self.end(signal.SIGKILL)


def run_refused(folder, seconds=20, **config):
    """Runs a server that must not start: (exit status, standard error)."""
    server = Server(folder, **config)
    done = subprocess.run(
        shlex.split(COMMAND) + [server.config],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=seconds,
        text=True,
    )
    return done.returncode, done.stderr
