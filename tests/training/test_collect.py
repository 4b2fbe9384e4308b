"""`vllm-sjf collect` against a small HTTP server in a thread."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
import typer
from training.fake_server import FakeServer
from typer.testing import CliRunner

pytest.importorskip("httpx")
pq = pytest.importorskip("pyarrow.parquet")

from sjf_training import asking  # noqa: E402
from sjf_training.collect import collect  # noqa: E402

KNOWN = "id source domain pattern prompt messages model output_tokens sampled_output_tokens"
COLUMNS = [*KNOWN.split(), "finish_reason", "finish_reasons", "temperature", "max_tokens", "seed"]


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(asking, "BACKOFF_BASE_S", 0.001)
    fake = FakeServer()
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    fake.resume.set()
    fake.shutdown()
    fake.server_close()
    thread.join()


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    texts = [f"prompt {'a' * i}" for i in range(12)]
    rows = [{"id": f"p{i}", "domain": "chat", "prompt": text} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def run(server, prompts, tmp_path):
    """Run the command; returns its result, with the output file as `.out`."""
    app = typer.Typer()
    app.command()(collect)

    def run(*args, out="out.parquet", **options):
        path = tmp_path / out
        options = {"prompts": prompts, "base_url": server.url, "out": path} | options
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        result = CliRunner().invoke(app, [*flags, *args])
        result.out = path
        result.log = path.with_name(path.name + ".partial.jsonl")
        return result

    return run


def rows_of(path):
    return {row["id"]: row for row in pq.read_table(path).to_pylist()}


def test_parquet_has_one_row_a_prompt_in_the_files_order(run, server):
    result = run(temperature=0.3, max_tokens=77)
    assert result.exit_code == 0, result.output
    table = pq.read_table(result.out)
    assert table.column_names == COLUMNS
    assert table["id"].to_pylist() == [f"p{i}" for i in range(12)]
    row = table.to_pylist()[4]
    assert row["messages"] == [{"role": "user", "content": "prompt aaaa"}]
    assert row["output_tokens"] == len("prompt aaaa") + row["seed"] % 5
    assert (row["model"], row["finish_reason"], row["domain"]) == ("tiny", "stop", "chat")
    assert row["sampled_output_tokens"] is None
    for body in server.bodies:
        assert (body["temperature"], body["max_tokens"], body["stream"]) == (0.3, 77, False)
        assert "x" * 8 not in result.log.read_text()  # no answer text


def test_samples_go_to_a_seeded_draw_with_a_seed_each(run, server):
    result = run(samples=4, samples_for=3, seed=5)
    assert result.exit_code == 0, result.output
    several = {k: r for k, r in rows_of(result.out).items() if r["sampled_output_tokens"]}
    assert len(several) == 3
    for row in several.values():
        assert len(row["sampled_output_tokens"]) == len(row["finish_reasons"]) == 4
        assert row["output_tokens"] == row["sampled_output_tokens"][-1]
    seeds = [body["seed"] for body in server.bodies]
    assert len(seeds) == len(set(seeds)) == 9 + 3 * 4

    again = run(samples=4, samples_for=3, seed=5, out="again.jsonl")
    lines = [json.loads(line) for line in again.out.read_text().splitlines()]
    assert {row["id"]: row for row in lines} == rows_of(result.out)
    other = run(samples=4, samples_for=3, seed=6, out="other.parquet")
    assert {k for k, r in rows_of(other.out).items() if r["sampled_output_tokens"]} != set(several)


def test_a_rerun_asks_only_what_is_missing(run, server):
    whole = run()
    before = rows_of(whole.out)
    lines = whole.log.read_bytes().splitlines(keepends=True)
    kept, torn = lines[:6], lines[6][:-9]  # the header, five answers, and half of a sixth
    whole.log.write_bytes(b"".join(kept) + torn)
    whole.out.unlink()
    server.bodies.clear()
    result = run()
    assert result.exit_code == 0, result.output
    assert sum(server.asked().values()) == 12 - 5
    assert rows_of(result.out) == before
    assert all(json.loads(line) for line in result.log.read_text().splitlines())


def test_a_changed_prompt_is_asked_again(run, server, prompts):
    run()
    server.bodies.clear()
    prompts.write_text(prompts.read_text().replace('prompt aaa"', 'prompt bbb"'))
    run()
    assert server.asked() == {"prompt bbb": 1}


@pytest.mark.parametrize("statuses", [[500, 503], [429], [0], [408, 0, 500]])
def test_what_may_pass_is_retried(run, server, statuses):
    server.fail["prompt aa"] = list(statuses)
    result = run()
    assert result.exit_code == 0, result.output
    assert server.asked()["prompt aa"] == len(statuses) + 1
    assert len(rows_of(result.out)) == 12


def test_what_cannot_succeed_is_recorded_once_and_left_out(run, server):
    server.fail["prompt aa"] = [400] * 9
    result = run()
    assert result.exit_code == 1  # one of twelve is more than the default share
    assert "400: no luck with prompt aa" in result.output
    assert server.asked()["prompt aa"] == 1
    assert "p2" not in rows_of(result.out)
    logged = [json.loads(line) for line in result.log.read_text().splitlines()]
    failures = [line for line in logged if "error" in line]
    assert [(f["id"], f["status"]) for f in failures] == [("p2", 400)]

    assert run(max_failed_share=0.1).exit_code == 0
    server.fail.clear()
    server.bodies.clear()
    assert run().exit_code == 0  # a rerun gives failures another chance, and nothing else
    assert server.asked() == {"prompt aa": 1}


def test_retries_end(run, server):
    server.fail["prompt aa"] = [500] * 9
    result = run(retries=2)
    assert result.exit_code == 1
    assert server.asked()["prompt aa"] == 3


def test_an_aborted_answer_has_no_length(run, server):
    server.reply = {
        "choices": [{"message": {"content": ""}, "finish_reason": "abort"}],
    }
    result = run(retries=0, concurrency=50)
    assert result.exit_code == 1
    assert "cut the answer short" in result.output
    assert not result.out.exists()


@pytest.mark.parametrize(("status", "advice"), [(401, "--api-key"), (404, "--model")])
def test_a_wrong_key_or_model_stops_at_once(run, server, status, advice):
    for i in range(12):
        server.fail[f"prompt {'a' * i}"] = [status] * 9
    result = run(concurrency=1)
    assert result.exit_code == 1
    assert advice in result.output
    assert len(server.bodies) == 1


def test_a_server_that_dies_stops_the_run_and_keeps_the_answers(run, server):
    for i in range(3, 12):
        server.fail[f"prompt {'a' * i}"] = [0] * 99
    result = run(retries=1, concurrency=1)
    assert result.exit_code == 1
    assert "stopped answering" in result.output
    server.fail.clear()
    assert run().exit_code == 0
    assert server.asked()["prompt aa"] == 1


def test_no_server_is_said_plainly(run):
    result = run(base_url="http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "is the server up?" in result.output


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_run_goes_on_where_it_was(run, server, prompts, tmp_path, stop, code):
    server.pause_at = 6
    # A shell that starts things in the background has them ignore Ctrl-C; undo that here.
    code_text = (
        "import signal, typer; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from sjf_training.collect import collect; typer.run(collect)"
    )
    flags = ["--prompts", prompts, "--out", tmp_path / "out.parquet", "--base-url", server.url]
    process = subprocess.Popen(
        [sys.executable, "-c", code_text, *map(str, flags), "--concurrency=1"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert server.paused.wait(60)
    process.send_signal(stop)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert ("rerun to go on" in output) == (stop == signal.SIGINT)
    server.pause_at = None
    server.resume.set()
    server.bodies.clear()
    assert run().exit_code == 0
    assert len(server.bodies) == 12 - 5


def test_a_log_of_other_parameters_is_refused(run):
    run()
    result = run(temperature=0.1)
    assert result.exit_code == 1
    assert "another --out" in " ".join(result.output.split())


def test_messages_text_key_and_keep_text(run, server, tmp_path):
    import pyarrow as pa

    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    path = tmp_path / "prompts.parquet"
    pq.write_table(pa.Table.from_pylist([{"messages": messages, "source": "s"}]), path)
    result = run("--keep-text", prompts=path, api_key="sesame", model="other")
    assert result.exit_code == 0, result.output
    (row,) = rows_of(result.out).values()
    assert row["messages"] == server.bodies[0]["messages"] == messages
    assert row["text"] == "x" * row["output_tokens"]
    assert (row["prompt"], row["source"], row["model"]) == ("hi", "s", "other")
    assert len(row["id"]) == 16
    assert server.keys == ["Bearer sesame"]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([{"id": "a"}], "row 1"),
        ([{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}], "'a' occurs twice"),
        ([{"messages": [{"role": "user", "content": [{"type": "image"}]}]}], "no text"),
        ([], "holds no prompts"),
    ],
)
def test_bad_prompts_are_named(run, tmp_path, rows, complaint):
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(prompts=path)
    assert result.exit_code == 1
    assert complaint in " ".join(result.output.split())


@pytest.mark.parametrize(
    "content",
    [
        b"[]\n",
        b"null\n",
        b'{"prompt"\n',
        b"\xff\n",
        b"[" * 100_000,
        b'{"prompt": "half a pair: \\ud800"}\n',
        b'{"prompt": "x", "source": "\\ud800"}\n',
        b'{"prompt": "x", "n": ' + b"9" * 5000 + b"}\n",
    ],
)
def test_unreadable_prompts_are_named_by_row(run, server, tmp_path, content):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"prompt": "good"}\n' + content)
    result = run(prompts=path)
    assert result.exit_code == 1
    assert "row 2" in " ".join(result.output.split())
    assert not server.bodies


@pytest.mark.parametrize("suffix", ["parquet", "jsonl.gz"])
def test_damaged_prompt_files_are_refused(run, tmp_path, suffix):
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(b"\x1f\x8b\x08PAR1 cut short")
    assert run(prompts=path).exit_code == 1


@pytest.mark.parametrize(
    "reply",
    [
        {"usage": {"completion_tokens": tokens}}
        for tokens in ("abc", "5", -5, 5.5, 2**40, float("inf"), True, None)
    ]
    + [{"choices": [{"message": {"content": "x"}, "finish_reason": None}]}, {"choices": [None]}],
)
def test_an_answer_without_a_length_is_a_failure_not_a_row(run, server, reply):
    server.reply = reply
    result = run()
    assert result.exit_code == 1
    assert "100.0% of the prompts failed" in result.output
    assert not result.out.exists()


@pytest.mark.parametrize("content", ["\ud800", [1]])
def test_text_that_is_none_spoils_no_length(run, server, content):
    server.reply = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    result = run("--keep-text")
    assert result.exit_code == 0, result.output
    assert len(rows_of(result.out)) == 12


def test_damaged_lines_of_the_log_cost_only_themselves(run, server):
    log = run().log
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], lines[1][:-9] + b"\n", b"\0\0\n", b"\n", *lines[2:]]))
    server.bodies.clear()
    result = run()
    assert result.exit_code == 0, result.output
    assert "2 damaged lines" in result.output
    assert len(server.bodies) == 1
    assert len(rows_of(result.out)) == 12


@pytest.mark.parametrize(
    "options",
    [{"temperature": "inf"}, {"max_tokens": 2**40}, {"timeout_s": "nan"}, {"samples": 0}],
)
def test_numbers_out_of_range_are_refused_before_asking(run, server, options):
    assert run(**options).exit_code == 2
    assert not server.bodies


def test_the_prompts_are_not_overwritten(run, prompts):
    before = prompts.read_text()
    assert run(out=prompts.name).exit_code == 2
    assert prompts.read_text() == before


def test_a_key_that_no_header_can_carry_is_refused(run, server):
    result = run(api_key="ключ")
    assert result.exit_code == 1
    assert "--api-key" in result.output
