"""Runs the commands of the README and of docs/ as a reader would copy them, from the text itself.

docs_commands.py FILE...

A block that is marked as `console`, `sh` or `python` is run, block by block, in one folder for each file:

  console  lines that begin with `$ ` are commands, which must succeed. The lines behind one are what it prints: they are compared, and `...`
           stands for any text, within a line or for any lines. A duration stands for any, as do spaces. An id of 13 to 16 hexadecimal
           digits stands for the one printed at its place; later commands and lines that have this id mean that one. A few lines
           without `...` may come in any order.
  sh       each line is a command that must succeed.
  python   statements behind `>>> `, with what they print (doctest).

A command that starts a server (`make run`, `quorate serve`, `etcd`) goes on in the background, after its ready line; the next
one in the same file ends it. A block that cannot be run here says so: "```sh not run: WHY". A block without a mark that looks
like commands is an error, as is one whose reason is missing. The file may have marks in comments for what a reader has and
a test has not:

  <!-- given: COMMAND -->   is run here, at this place. The command `servers` is docs-servers.sh: it starts other machines' servers.

The caller gives the names of the programs by PATH, and a network of its own (run-docs-commands.sh): ports are those of the text.
The last line is `N passed, N failed`, a command each.
"""

import doctest
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_SECONDS = 120
RUN = {"console", "sh", "python"}
COMMANDS = re.compile(
    r"\s*(\$ |>>> |(target/release/)?quorate (?!ready)|etcdctl |etcdutl |etcd |\./etcd |curl |make |cargo |tests/|zkCli\.sh |ln |pip |python3? |hey |benchmark )"
)
SERVERS = re.compile(r"^(make run\b|(target/release/)?quorate serve\b|\./etcd\b|(\w+=\S+ )*etcd --)")
NOT_RUN = re.compile(r"not run: \S.*")
GIVEN = re.compile(r"<!-- given: (.*) -->")


class Failure(Exception):
    pass


def blocks(path):
    """Yields (line number, language, rest of the mark, lines) for each block, marked or not, and for what is given."""
    lines = open(path, encoding="utf-8").read().split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        given = GIVEN.match(line)
        mark = re.match(r"( *)```(\S*) ?(.*)$", line)
        if given:
            yield at + 1, "sh", "", [given.group(1)]
        elif mark:
            indent, end = len(mark.group(1)), at + 1
            while not lines[end].strip().startswith("```"):
                end += 1
            yield at + 1, mark.group(2), mark.group(3), [text[indent:] for text in lines[at + 1 : end]]
            at = end
        elif line.startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield at + 1, "indented", "", [text[4:] for text in lines[at:end]]
            at = end - 1
        at += 1


def joined(lines):
    """Commands of a shell: lines that end with a backslash go on."""
    text = ""
    for line in lines:
        text += line
        if line.endswith("\\"):
            text += "\n"
            continue
        if text.strip() and not text.lstrip().startswith("#"):
            yield text
        text = ""


def scripts(lines):
    """The scripts of a shell block: a command that starts a server is one of its own, since the others wait for the server."""
    script = []
    for command in joined(lines):
        if SERVERS.match(command):
            if script:
                yield "\n".join(script)
            script = []
            yield command
        else:
            script.append(command)
    if script:
        yield "\n".join(script)


def transcript(lines):
    """(command, the lines that it prints) of a console."""
    command, printed = None, []
    for line in lines:
        if line.startswith("$ ") or (command and command.endswith("\\")):
            if command and command.endswith("\\"):
                command += "\n" + line
                continue
            if command:
                yield command, printed
            command, printed = line[2:], []
        elif command:
            printed.append(line)
    if command:
        yield command, printed


TOKENS = re.compile(
    r"(?P<any>\.\.\.)|(?P<id>\b[0-9a-f]{13,16}\b)|(?P<time>\b\d+(\.\d+)? ?(ns|us|µs|ms|s)\b)|(?P<space> +)"
)
# What lines may come in any order: more of them would take long.
ANY_ORDER_MAX = 5


def pattern(lines, ids):
    """The expression for these lines, and the ids, as the text has them, that it binds: group 1 is the first one's, and so on."""
    text, parts, bound, at = "\n".join(lines).strip("\n"), [], [], 0
    for token in TOKENS.finditer(text):
        parts.append(re.escape(text[at : token.start()]))
        at, found = token.end(), token.group(0)
        if token["any"]:
            parts.append("(?s:.*)")
        elif token["time"]:
            parts.append(r"[\d.]+ ?[nuµm]?s")
        elif token["space"]:
            parts.append(" +")
        elif found in ids:
            parts.append(re.escape(ids[found]))
        elif found in bound:
            parts.append(r"\%d\b" % (bound.index(found) + 1))
        else:
            bound.append(found)
            parts.append("([0-9a-f]{13,16})")
    parts.append(re.escape(text[at:]))
    return re.compile("".join(parts) + r"\n*\Z"), bound


def ids_of(printed, text, ids):
    """The ids that `text` has where `printed` has others, or None if it is not what `printed` says."""
    in_any_order = len(printed) <= ANY_ORDER_MAX and "..." not in "".join(printed)
    for lines in itertools.permutations(printed) if in_any_order else [printed]:
        expression, bound = pattern(lines, ids)
        match = expression.match(text)
        if match:
            return dict(zip(bound, match.groups()))
    return None


class Reader:
    """One who reads a file and does what it says, in a folder."""

    def __init__(self, path, folder):
        self.path, self.folder, self.server = path, folder, None
        self.passed = self.failed = 0
        self.ids = {}

    def read(self):
        for number, language, rest, lines in blocks(self.path):
            where = "%s:%d" % (self.path, number)
            if language in RUN and rest.startswith("not run"):
                if not NOT_RUN.fullmatch(rest):
                    self.check(where, "its mark", self.without_reason)
            elif language == "python":
                self.check(where, "python", lambda: self.python(lines))
            elif language == "console":
                for command, printed in transcript(lines):
                    self.check(where, command, lambda: self.run(command, printed))
            elif language == "sh":
                for command in scripts(lines):
                    self.check(where, command, lambda: self.run(command, None))
            elif any(COMMANDS.match(line) for line in lines):
                self.check(where, "its mark", self.unmarked)
        self.end_server()

    def check(self, where, what, act):
        print("%s: %s" % (where, what), flush=True)
        try:
            act()
            self.passed += 1
        except Failure as failure:
            self.failed += 1
            print("FAILED %s: %s\n%s" % (where, what, failure), flush=True)

    def without_reason(self):
        raise Failure("it is not run, and does not say why")

    def unmarked(self):
        raise Failure("commands without a mark: console, sh or python, and `not run: WHY` if it cannot be run here")

    def python(self, lines):
        test = doctest.DocTestParser().get_doctest("\n".join(lines) + "\n", {}, self.path, self.path, 0)
        said = []
        if doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append).failed:
            raise Failure("".join(said))

    def run(self, command, printed):
        for written, actual in self.ids.items():
            command = command.replace(written, actual)
        plain = re.sub(r"\s+#.*", "", command).strip()
        if SERVERS.match(plain):
            text = self.start_server(plain)
        else:
            try:
                done = subprocess.run(
                    ["bash", "-ec", command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, timeout=LIMIT_SECONDS, text=True,
                )
            except subprocess.TimeoutExpired as late:
                raise Failure("it does not end: %s" % late.output)
            text = done.stdout
            if done.returncode != 0:
                raise Failure("status %d:\n%s" % (done.returncode, text))
        found = ids_of(printed, text, self.ids) if printed else {}
        self.ids.update(found or {})
        if found is None:
            raise Failure("expected:\n%s\nprinted:\n%s" % ("\n".join(printed), text))

    def start_server(self, command):
        self.end_server()
        # What `make run` runs is asked of make: the folder is not the checkout, whose data stay as they are.
        if command == "make run":
            root = os.environ["ROOT"]
            wanted = subprocess.run(["make", "-n", "-C", root, "run"], stdout=subprocess.PIPE, text=True).stdout
            if "cargo run --release --package quorate -- serve" not in wanted:
                raise Failure("make run does something else: %s" % wanted)
            command = "target/release/quorate serve"
        self.server = subprocess.Popen(
            ["bash", "-c", "exec env " + command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        printed, logged, is_ready = [], [], threading.Event()

        def follow(stream, lines):
            for line in stream:
                lines.append(line)
                if "quorate ready" in line or "ready to serve client requests" in line:
                    # The list of an ensemble's servers is printed with the line.
                    threading.Timer(0.3, is_ready.set).start()
            is_ready.set()

        for stream, lines in [(self.server.stdout, printed), (self.server.stderr, logged)]:
            threading.Thread(target=follow, args=(stream, lines), daemon=True).start()
        is_ready.wait(LIMIT_SECONDS)
        if self.server.poll() is not None or not is_ready.is_set():
            raise Failure("it is not ready:\n%s" % "".join(printed + logged))
        return "".join(printed)

    def end_server(self):
        if self.server is None:
            return
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.server.kill()
        self.server = None


def main():
    passed = failed = 0
    for path in sys.argv[1:]:
        folder = tempfile.mkdtemp(prefix="docs-", dir=os.environ.get("PEER_TMP"))
        os.symlink(os.path.join(os.environ["ROOT"], "target"), os.path.join(folder, "target"))
        os.symlink(os.path.join(os.environ["ROOT"], "tests"), os.path.join(folder, "tests"))
        began = time.monotonic()
        reader = Reader(path, folder)
        try:
            reader.read()
        finally:
            subprocess.run(["servers", "kill", "all"], cwd=folder)
        print("%s: %d s" % (path, time.monotonic() - began), flush=True)
        passed, failed = passed + reader.passed, failed + reader.failed
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
