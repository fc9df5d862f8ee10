"""Several workers as operators meet them: replaced, killed, stuck, crashing, drained, with and without nginx and systemd."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from tests.support.load import Load, Tally, answer, ask, off_loop
from tests.support.nginx import nginx, nginx_binary
from tests.support.scripted_upstream import Script, ScriptedUpstream
from tests.support.workers import Cluster, alive, cluster, command_of, free_ports, written

needs_nginx = pytest.mark.skipif(nginx_binary() is None, reason="nginx is not installed")
UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "toolgraft.service"
EVERY_STAGE = '[log]\nstages = "all"\n'


@asynccontextmanager
async def behind_nginx(tmp_path, script=answer, toml="", **options):
    """Upstream, two workers with a port each, nginx: gives the workers, nginx's URL and the upstream."""
    async with ScriptedUpstream(script) as upstream:
        with running(tmp_path, upstream.url, toml, **options) as (workers, url):
            yield workers, url, upstream


@contextmanager
def running(tmp_path, upstream_url, toml, **options):
    (tmp_path / "nginx").mkdir()
    with cluster(tmp_path, upstream_url, 2, toml, **options) as workers, nginx(tmp_path / "nginx", workers.ports) as url:
        yield workers, url


async def roll(workers):
    """Replace all workers and wait until it is done."""
    before = len(workers.events("reloaded"))
    workers.signal(signal.SIGHUP)
    await off_loop(workers.until, lambda: len(workers.events("reloaded")) > before or workers.events("reload_failed"))
    assert workers.events("reload_failed") == []


def nothing_lost(workers, tally):
    """No request failed, and the log has exactly one line for each that was answered, from an orderly turn."""
    assert tally.failed == []
    turns = [line for line in workers.lines() if line["event"] == "turn"]
    rids = [line["rid"] for line in turns]
    assert sorted(rids) == sorted(tally.rids)
    assert {line["verdict"] for line in turns} <= {"call", "text"}
    assert {line["worker"] for line in turns} == {0, 1}


async def rolled_under_load(workers, url, rolls):
    pids = [workers.pid(worker) for worker in (0, 1)]
    async with Load(url) as load:
        await load.more(40)
        for _ in range(rolls):
            await roll(workers)
            await load.more(40)
    nothing_lost(workers, load.tally)
    assert min(load.tally.done.values()) > 0
    assert len(load.tally.done) == 5
    assert not any(alive(pid) for pid in pids)
    assert len(workers.events("worker_ready")) == 2 + 2 * rolls
    assert workers.events("worker_ended", exit=0) == workers.events("worker_ended")


@needs_nginx
async def test_workers_are_replaced_through_nginx_under_load_and_nothing_is_lost(tmp_path):
    async with behind_nginx(tmp_path, lame_duck_s=1.0) as (workers, url, _):
        await rolled_under_load(workers, url, 1)


@pytest.mark.heavy
@pytest.mark.timeout(600)
@needs_nginx
async def test_workers_are_replaced_five_times_through_nginx_and_nothing_is_lost(tmp_path):
    async with behind_nginx(tmp_path, lame_duck_s=2.0) as (workers, url, _):
        await rolled_under_load(workers, url, 5)


async def test_workers_that_share_a_port_are_replaced_under_load_and_nothing_is_lost(tmp_path):
    async with ScriptedUpstream(answer) as upstream:
        with cluster(tmp_path, upstream.url, 2, per_worker_ports=False, lame_duck_s=1.0) as workers:
            await rolled_under_load(workers, workers.url, 1)


@needs_nginx
async def test_a_killed_worker_takes_its_own_streams_with_it_and_no_others(tmp_path):
    slow = {True: Script(text="word " * 300, chunk=25, delay_between_s=0.1), False: Script(text="word", delay_before_first_s=6)}
    async with behind_nginx(tmp_path, lambda seen: slow[seen.json["stream"]] if "slow" in seen.text else answer(seen), EVERY_STAGE) as (
        workers,
        url,
        upstream,
    ):
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "slow"}], "tools": [TOOL]}
        async with aiohttp.ClientSession() as session:
            answers = [await session.post(f"{url}/v1/chat/completions", json=body) for _ in range(12)]
            assert {got.status for got in answers} == {200}
            await asyncio.gather(*(got.content.readline() for got in answers))
            at = {line["rid"]: line["worker"] for line in workers.events("upstream_sent")}
            where = [at[got.headers["x-request-id"]] for got in answers]
            assert {where.count(0), where.count(1)} == {6}  # least_conn
            whole = {**body, "stream": False}
            plain = [asyncio.create_task(outcome_of(session, url, whole)) for _ in range(4)]
            await off_loop(workers.until, lambda: len(workers.events("upstream_sent")) == 16)
            dying = workers.pid(0)
            of_the_dying = sum(line["worker"] == 0 for line in workers.events("upstream_sent")[12:])
            os.kill(dying, signal.SIGKILL)
            await off_loop(workers.until, lambda: workers.events("worker_ended", worker=0, exit=-9))
            # new work is served meanwhile: by the other worker, or by the new one once it is there
            async with Load(url, count=4) as load:
                await load.more(8)
            assert load.tally.failed == []
            ends = await asyncio.gather(*(end_of(got) for got in answers))
            assert [end for end, worker in zip(ends, where, strict=True) if worker == 1] == ["done"] * 6
            assert [end for end, worker in zip(ends, where, strict=True) if worker == 0] == ["cut"] * 6
            statuses = await asyncio.gather(*plain)
            assert sorted(statuses) == [200] * (4 - of_the_dying) + [502] * of_the_dying
        workers.ready(3)
        assert not alive(dying)
        # its upstreams were closed with it
        assert all([await seen.left(5) for seen in upstream.seen if not seen.completed])


TOOL = {"type": "function", "function": {"name": "lookup_tide", "parameters": {"type": "object", "properties": {}}}}


async def outcome_of(session, url, body):
    async with session.post(f"{url}/v1/chat/completions", json=body) as got:
        await got.read()
        return got.status


async def end_of(got):
    """How a stream ended, as its client can tell: `done`, `error` with the protocol's event, `cut` on the wire, or a lie."""
    raw = b""
    try:
        while piece := await got.content.readany():
            raw += piece
    except aiohttp.ClientPayloadError:
        assert b"[DONE]" not in raw
        assert b'"finish_reason":"' not in raw.replace(b" ", b"")
        return "error" if b'data: {"error"' in raw else "cut"
    return "done" if raw.endswith(b"data: [DONE]\n\n") else "lie"


def test_a_worker_that_crashes_again_and_again_is_waited_for_by_nobody(tmp_path):
    with ScriptedUpstream("hello").in_thread() as upstream, cluster(tmp_path, upstream.url, 2) as workers:
        for _ in range(2):  # the first crash is forgiven at once, the second costs a wait
            count = len(workers.events("worker_ready"))
            os.kill(workers.pid(0), signal.SIGKILL)
            workers.until(lambda count=count: len(workers.events("worker_ready")) > count or workers.events("worker_waits"))
        waits = workers.until(lambda: workers.events("worker_waits", worker=0))
        assert [line["delay_s"] for line in waits] == [0.5]
        seen = set()

        def back():
            seen.add(workers.readiness(0))
            return len(workers.events("worker_ready", worker=0)) == 3

        workers.until(back)
        assert None in seen  # while it waits nobody listens: nginx tries the other one at once
        assert workers.readiness(0) == workers.readiness(1) == 200
        assert workers.pid(1) == workers.events("worker_ready", worker=1)[0]["pid"]


def test_a_reload_takes_the_new_configuration_and_refuses_a_faulty_one(tmp_path):
    with ScriptedUpstream("hello").in_thread() as upstream, cluster(tmp_path, upstream.url, 2) as workers:
        config = tmp_path / "toolgraft.toml"
        good = config.read_text()
        pids = [workers.pid(worker) for worker in (0, 1)]
        config.write_text(good + "[retry]\nmax_retrys = 1\n")
        workers.signal(signal.SIGHUP)
        workers.until(lambda: workers.events("reload_failed", why="configuration"))
        workers.until(lambda: "retry.max_retrys: unknown key" in workers.stderr())
        for worker in (0, 1):
            workers.until(lambda worker=worker: workers.total(worker, "toolgraft_config_reloads_total", result="failed") == 1)
        assert [workers.pid(worker) for worker in (0, 1)] == pids

        config.write_text(good.replace("[listen]", "[listen]\nbacklog = 9") + "[limits]\nmax_concurrency = 77\n")
        workers.signal(signal.SIGHUP)
        workers.until(lambda: workers.events("reloaded"))
        assert [line["keys"] for line in workers.events("restart_needed")] == [["listen.backlog"]]
        for worker in (0, 1):
            assert workers.total(worker, "toolgraft_admission_limit") == 77
            assert workers.total(worker, "toolgraft_config_reloads_total", result="ok") == 1
        assert not any(alive(pid) for pid in pids)


def test_a_successor_that_is_killed_while_the_old_one_drains_comes_back(tmp_path):
    with ScriptedUpstream("hello").in_thread() as upstream, cluster(tmp_path, upstream.url, 2, lame_duck_s=30) as workers:
        old = workers.pid(0)
        workers.signal(signal.SIGHUP)
        workers.until(lambda: workers.pid(0) != old)
        successor = workers.pid(0)
        os.kill(successor, signal.SIGKILL)
        workers.until(lambda: workers.pid(0) not in (old, successor))
        assert alive(old)  # it drains still: nobody waited for it
        assert workers.readiness(0) == 200
        workers.signal(signal.SIGTERM)
        workers.until(lambda: workers.events("stopping"))
        workers.signal(signal.SIGTERM)  # at once: the lame duck is of no interest here


async def test_the_end_drains_all_workers_and_accepts_nobody_afterwards(tmp_path):
    slow = Script(text="word " * 40, chunk=10, delay_between_s=0.1)
    async with ScriptedUpstream(slow) as upstream:
        with cluster(tmp_path, upstream.url, 2, lame_duck_s=0.5) as workers:
            body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}
            async with aiohttp.ClientSession() as session:
                answers = [await session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) for port in workers.ports]
                await asyncio.gather(*(got.content.readline() for got in answers))
                workers.signal(signal.SIGTERM)
                await off_loop(workers.until, lambda: [workers.readiness(worker) for worker in (0, 1)] == [503, 503])
                await off_loop(workers.until, lambda: not any(map(accepts, workers.ports)))
                assert workers.process.poll() is None  # the streams run on
                assert await asyncio.gather(*(end_of(got) for got in answers)) == ["done", "done"]
            assert await asyncio.to_thread(workers.process.wait, 20) == 0
            assert [line["event"] for line in workers.lines()][-1] == "supervisor_stopped"
            assert len(workers.events("turn", verdict="text")) == 2


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


async def test_a_second_signal_ends_all_workers_at_once(tmp_path):
    async with ScriptedUpstream(Script(text="x", ending="open")) as upstream:
        with cluster(tmp_path, upstream.url, 2, lame_duck_s=100, timeout_s=100) as workers:
            async with aiohttp.ClientSession() as session:
                body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
                async with session.post(f"{workers.url}/v1/chat/completions", json=body):
                    workers.signal(signal.SIGINT)
                    await off_loop(workers.until, lambda: len(workers.events("draining")) == 2)
                    workers.signal(signal.SIGINT)
                    assert await asyncio.to_thread(workers.process.wait, 30) == 0


def test_a_supervisor_that_is_killed_leaves_no_worker_behind(tmp_path):
    with ScriptedUpstream("hello").in_thread() as upstream, cluster(tmp_path, upstream.url, 2) as workers:
        workers.process.kill()
        workers.process.wait()
        workers.until(lambda: workers.family() == [])
        assert len(workers.events("supervisor_gone")) == len(workers.events("stopped")) == 2


class Systemd:
    """What systemd would hear."""

    def __init__(self, folder):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(folder / "notify"))
        self._socket.settimeout(60)
        self.environment = {"NOTIFY_SOCKET": str(folder / "notify"), "WATCHDOG_USEC": "2000000"}

    def until(self, mark):
        """What was heard before the message with this mark, and that message."""
        heard = []
        while not heard or mark not in heard[-1]:
            heard.append(self._socket.recv(4096).decode())
        return heard

    def close(self):
        self._socket.close()


@pytest.fixture
def systemd(tmp_path):
    found = Systemd(tmp_path)
    yield found
    found.close()


def test_systemd_hears_of_everything_and_a_stuck_worker_is_replaced(tmp_path, systemd):
    with ScriptedUpstream("hello").in_thread() as upstream:
        with cluster(tmp_path, upstream.url, 2, environment=systemd.environment, wait=False) as workers:
            before = systemd.until("READY=1")
            assert all(one == "WATCHDOG=1" for one in before[:-1])
            systemd.until("WATCHDOG=1")
            workers.signal(signal.SIGHUP)
            assert "MONOTONIC_USEC=" in systemd.until("RELOADING=1")[-1]
            systemd.until("READY=1")
            stuck = workers.pid(1)
            os.kill(stuck, signal.SIGSTOP)
            workers.until(lambda: workers.events("worker_stuck", pid=stuck))
            workers.ready(5)
            assert not alive(stuck)
            assert workers.readiness(1) == 200
            workers.signal(signal.SIGTERM)
            systemd.until("STOPPING=1")


def test_a_single_worker_with_a_supervisor_is_reloaded(tmp_path, systemd):
    command = next(line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))
    assert "--supervise" in command.split()
    config, ports, admin = written(tmp_path, "http://127.0.0.1:9", 1)
    (tmp_path / "stderr.txt").touch()
    with (tmp_path / "log.jsonl").open("wb") as log:
        environment = {"PATH": os.environ["PATH"], **systemd.environment}
        process = subprocess.Popen([*command_of(config), "--supervise"], stdout=log, env=environment)
        workers = Cluster(process, ports, admin, tmp_path)
        try:
            systemd.until("READY=1")
            config.write_text(config.read_text() + "[limits]\nmax_concurrency = 77\n")
            workers.signal(signal.SIGHUP)
            systemd.until("RELOADING=1")
            systemd.until("READY=1")
            assert len(workers.until(lambda: workers.events("reloaded"))) == 1
            assert workers.total(0, "toolgraft_admission_limit") == 77
            workers.signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
    assert workers.family() == []


def test_one_process_tells_systemd_too(tmp_path, systemd):
    config, _, _ = written(tmp_path, "http://127.0.0.1:9", 1)
    with (tmp_path / "log.jsonl").open("wb") as log:
        process = subprocess.Popen(command_of(config), stdout=log, env={"PATH": os.environ["PATH"], **systemd.environment})
        try:
            assert "STATUS=listening on 127.0.0.1:" in systemd.until("READY=1")[-1]
            systemd.until("WATCHDOG=1")
            process.send_signal(signal.SIGHUP)  # there is nobody to put in its place: it goes on
            process.terminate()
            systemd.until("STOPPING=1")
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
    assert [json.loads(line)["event"] for line in (tmp_path / "log.jsonl").read_text().splitlines()][:2] == ["listening", "hangup_ignored"]


def activated(ports):
    """A command's beginning that opens these ports and hands them on as systemd does: from file descriptor 3 on, in order."""
    program = (
        "import os, socket, sys\n"
        "split = sys.argv.index('--')\n"
        "socks = [socket.create_server(('127.0.0.1', int(port))) for port in sys.argv[1:split]]\n"
        "fds = [os.dup2(os.dup(sock.fileno()), 60 + at) for at, sock in enumerate(socks)]\n"
        "for at, fd in enumerate(fds): os.dup2(fd, 3 + at); os.set_inheritable(3 + at, True); os.close(fd)\n"
        "os.environ |= {'LISTEN_FDS': str(len(fds)), 'LISTEN_PID': str(os.getpid())}\n"
        "os.execvp(sys.argv[split + 1], sys.argv[split + 1 :])\n"
    )
    return [sys.executable, "-c", program, *map(str, ports), "--"]


def get_root(port):
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return sock.makefile("rb").read().partition(b"\r\n")[0]


def test_sockets_of_systemd_are_taken_one_for_each_worker(tmp_path):
    first = free_ports(2)
    with cluster(tmp_path, "http://127.0.0.1:9", 2, prefix=activated([first, first + 1])) as workers:
        assert {line["address"] for line in workers.events("listening")} == {f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"}
        assert not any(map(accepts, workers.ports))
        assert get_root(first) == get_root(first + 1) == b"HTTP/1.1 200 OK"
        workers.signal(signal.SIGHUP)
        workers.until(lambda: workers.events("reloaded"))
        assert get_root(first) == get_root(first + 1) == b"HTTP/1.1 200 OK"


def test_one_process_takes_systemds_socket_and_waiting_connections_with_it(tmp_path):
    port = free_ports(1)
    config, ports, _ = written(tmp_path, "http://127.0.0.1:9", 1)
    process = subprocess.Popen([*activated([port]), *command_of(config)], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not accepts(port):  # the socket is there before the service is: connections wait
            assert time.monotonic() < deadline
        assert get_root(port) == b"HTTP/1.1 200 OK"
        assert not accepts(ports[0])
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize(("workers", "sockets"), [(2, 1), (2, 3)])
def test_sockets_that_do_not_go_round_are_refused_in_one_line(tmp_path, workers, sockets):
    first = free_ports(sockets)
    config, _, _ = written(tmp_path, "http://127.0.0.1:9", workers)
    done = subprocess.run(
        [*activated(range(first, first + sockets)), *command_of(config)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"workers = {workers}: systemd gives {sockets} socket(s)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("admin", [False, True])
def test_an_address_that_is_taken_is_said_in_one_line_before_any_worker_starts(tmp_path, admin):
    config, ports, admin_ports = written(tmp_path, "http://127.0.0.1:9", 2)
    port = (admin_ports if admin else ports)[1]
    with socket.create_server(("127.0.0.1", port)):
        done = subprocess.run(command_of(config), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_key_has_the_same_fingerprint_in_every_worker(tmp_path):
    toml = '[auth]\nkeys_env = "CLIENT_KEYS"\n'
    with ScriptedUpstream("hello").in_thread() as upstream:
        with cluster(tmp_path, upstream.url, 2, toml, environment={"CLIENT_KEYS": "k-canary"}) as workers:

            async def one_each():
                async with aiohttp.ClientSession(headers={"authorization": "Bearer k-canary"}) as session:
                    for port in workers.ports:
                        await ask(session, f"http://127.0.0.1:{port}", "plain", Tally())

            with pytest.raises(AssertionError, match="hello"):  # not the words that the load expects, but an answer
                asyncio.run(one_each())
            asyncio.run(asked(workers.ports))
            turns = workers.until(lambda: (found := workers.events("turn")) and {one["worker"] for one in found} == {0, 1} and found)
            assert len({line["key"] for line in turns}) == 1
            assert "canary" not in str(workers.lines())


async def asked(ports):
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    async with aiohttp.ClientSession(headers={"authorization": "Bearer k-canary"}) as session:
        for port in ports:
            async with session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as got:
                assert got.status == 200


def namespaces():
    """Whether this machine lets us be process 1 of a namespace."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not namespaces(), reason="no process namespaces here")
@pytest.mark.parametrize("count", [1, 2])
def test_process_1_reaps_orphans_and_drains(tmp_path, count):
    config, _, admin_ports = written(tmp_path, "http://127.0.0.1:9", count)
    command = " ".join(command_of(config))
    # the inner subshell ends at once: its child is an orphan, and becomes a child of process 1, which is then our program
    script = f"(sleep 300 &); exec {command}"
    outer = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script], stdout=subprocess.DEVNULL)
    try:
        inner = until(lambda: Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split())
        init = int(inner[0])
        until(lambda: accepts(admin_ports[-1]))
        orphan = until(lambda: [pid for pid in children(init) if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()])[0]
        os.kill(orphan, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{orphan}").exists())  # not even as a zombie
        os.kill(init, signal.SIGTERM)
        assert outer.wait(60) == 0
    finally:
        outer.kill()
        outer.wait()


def children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(done):
    deadline = time.monotonic() + 60
    while not (found := done()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


# --- output that nobody reads, or that is not there -------------------------------------------------------------------------------


@contextmanager
def by_hand(tmp_path, count, redirected, **options):
    """A service whose standard error, or whose shell redirections, are the test's own business; its log is a file all the same."""
    config, ports, admin = written(tmp_path, "http://127.0.0.1:9", count)
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", *command_of(config)]
    process = subprocess.Popen(command, env={"PATH": os.environ["PATH"]}, **options)
    try:
        yield Cluster(process, ports, admin, tmp_path), config
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("reader", ["gone", "stuck"])
def test_a_supervisor_whose_words_nobody_reads_still_reloads_and_ends(tmp_path, reader):
    (tmp_path / "stderr.txt").touch()
    reading, writing = os.pipe()
    if reader == "stuck":
        fill(writing)
    else:
        os.close(reading)
    try:
        with by_hand(tmp_path, 2, f"> {tmp_path}/log.jsonl", stderr=writing) as (workers, config):
            workers.until(lambda: (tmp_path / "log.jsonl").exists() and workers.events("supervising"))
            good = config.read_text()
            config.write_text(good + "[retry]\nmax_retrys = 1\n")
            workers.signal(signal.SIGHUP)
            workers.until(lambda: workers.events("reload_failed", why="configuration"))
            config.write_text(good)
            workers.signal(signal.SIGHUP)
            workers.until(lambda: workers.events("reloaded"))
            workers.signal(signal.SIGTERM)
            assert workers.process.wait(60) == 0
            assert workers.family() == []
    finally:
        os.close(writing)
        if reader == "stuck":
            os.close(reading)


def fill(pipe):
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe, b"x" * 65536)
    os.set_blocking(pipe, True)


def test_a_pipe_that_is_stuck_for_everything_keeps_nobody_from_reloading_and_ending(tmp_path):
    reading, writing = os.pipe()
    fill(writing)
    try:
        with by_hand(tmp_path, 2, "2>&1", stdout=writing) as (workers, config):
            ready = lambda: [workers.readiness(worker) for worker in (0, 1)] == [200, 200]  # noqa: E731
            until(ready)
            before = set(children(workers.process.pid))
            good = config.read_text()
            config.write_text(good + "[retry]\nmax_retrys = 1\n")
            workers.signal(signal.SIGHUP)
            until(lambda: workers.total(1, "toolgraft_config_reloads_total", result="failed") == 1)
            config.write_text(good)
            workers.signal(signal.SIGHUP)
            until(lambda: not before & set(children(workers.process.pid)) and ready())
            workers.signal(signal.SIGTERM)
            assert workers.process.wait(60) == 0
    finally:
        os.close(writing)
        os.close(reading)


@pytest.mark.parametrize("count", [1, 2])
def test_standard_streams_that_are_closed_are_nobody_elses(tmp_path, count):
    with by_hand(tmp_path, count, "<&- >&- 2>&-") as (workers, _):
        until(lambda: [workers.readiness(worker) for worker in range(count)] == [200] * count)
        pids = [workers.process.pid, *children(workers.process.pid)]
        assert len(pids) == (1 if count == 1 else 1 + count)
        assert {os.readlink(f"/proc/{pid}/fd/{fd}") for pid in pids for fd in (0, 1, 2)} == {"/dev/null"}
        workers.signal(signal.SIGTERM)
        assert workers.process.wait(60) == 0
        assert not any(map(alive, pids))
