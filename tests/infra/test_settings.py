from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from evolog.events.errors import SettingsError
from evolog.infra.settings import (
    Bytes,
    RunSettings,
    decode_settings,
    decode_table,
    diff,
    effective,
    load_run_file,
    model_settings,
    parse_override,
    revise,
)
from hypothesis import given
from hypothesis import strategies as st

FILE = """\
[run]
seed = 7

[task]
name = "sine"
direction = "minimize"
interface = "interface.py"
harness = "harness.py"
evaluator = "evaluator.py"

[task.splits]
search = "search.json"
holdout = "holdout.json"

[task.baselines]
zero = "zero.py"

[search]
strategy = "climb"
neighbours = 4

[evaluation]
memory = "256MiB"

[budget]
candidates = 40
"""


class Climb(msgspec.Struct, frozen=True, kw_only=True):
    neighbours: int = 3
    rule: Literal["best", "first"] = "best"
    step: float = 1.0

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise ValueError(f"search.neighbours is {self.neighbours}; it must be at least 1")


def strategy_settings(name: str) -> type[msgspec.Struct]:
    assert name == "climb"
    return Climb


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    file = tmp_path / "run.toml"
    file.write_text(FILE)
    for name in ("interface.py", "harness.py", "evaluator.py", "search.json", "holdout.json", "zero.py"):
        (tmp_path / name).write_text(f"content of {name}")
    return file


def load(path: Path, *overrides: str) -> RunSettings:
    return load_run_file(path, overrides, strategy_settings=strategy_settings).settings


def refusal(run_file: Path, *overrides: str, text: str | None = None) -> str:
    if text is not None:
        run_file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(run_file, *overrides)
    return str(caught.value)


def test_a_run_file_becomes_typed_settings_and_contents(run_file: Path) -> None:
    found = load_run_file(run_file, strategy_settings=strategy_settings)
    settings = found.settings
    assert (settings.run.seed, settings.budget.candidates, settings.budget.usd) == (7, 40, None)
    assert settings.search.options == Climb(neighbours=4)
    assert settings.evaluation.memory == 256 * 1024 * 1024
    assert settings.proposer.model == "builtin:mutate"
    assert found.path == run_file
    assert found.task.harness == b"content of harness.py"
    assert found.task.splits == {"search": b"content of search.json", "holdout": b"content of holdout.json"}
    assert found.task.baselines == {"zero": b"content of zero.py"}


def test_a_directory_means_its_run_toml(run_file: Path) -> None:
    assert load(run_file.parent) == load(run_file)


def test_a_missing_run_file_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "gone.toml") in refusal(tmp_path / "gone.toml")
    assert "run.toml: the run file cannot be read" in refusal(tmp_path)


def test_bad_toml_names_the_line(run_file: Path) -> None:
    assert "line 2" in refusal(run_file, text="[run]\nseed = = 1\n")
    run_file.write_bytes(b"[run]\ntitle = '\xff'\n")
    assert "not UTF-8 at byte 15" in refusal(run_file)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("candidates = 40", "candidats = 40", ["[budget]", "'candidats'", "Did you mean 'candidates'", "usd"]),
        ("[budget]", "[bugdet]", ["'bugdet'", "Did you mean 'budget'", "evaluation"]),
        ("neighbours = 4", "neighbors = 4", ["[search]", "Did you mean 'neighbours'", "strategy"]),
        ("[run]", "candidates = 3\n[run]", ["'candidates' outside a table", "budget.candidates"]),
        ('name = "sine"', "", ["[task]", "lacks the key 'name'"]),
        ("candidates = 40", 'candidates = "many"', ["budget.candidates = 'many'", "expected integer, got string"]),
        ("candidates = 40", "candidates = 0", ["budget.candidates = 0", ">= 1"]),
        ("candidates = 40", "usd = nan", ["budget.usd = nan", "finite"]),
        ("neighbours = 4", "neighbours = 0", ["search.neighbours is 0"]),
        ("neighbours = 4", 'rule = "worst"', ["search.rule = 'worst'"]),
        ('"climb"', "3", ["search.strategy = 3", "string"]),
        ('"256MiB"', '"256 parsecs"', ["evaluation.memory = '256 parsecs'", "MiB"]),
        ('"256MiB"', '"0MiB"', ["evaluation.memory", "expected bytes"]),
        ('holdout = "holdout.json"', "holdout = 3", ["task.splits.holdout = 3", "string"]),
        ('"harness.py"', '"nowhere.py"', ["task.harness = 'nowhere.py'", "No such file"]),
        ('"minimize"', '"down"', ["task.direction = 'down'"]),
        ("[budget]", "[proposer]\nextra = {stop = 2020-01-01}\n[budget]", ["proposer.extra.stop", "date"]),
        ("[budget]", "[proposer]\ntokens = 0\n[budget]", ["proposer.tokens is 0"]),
        ('harness = "harness.py"\n', "", ["task.harness and task.evaluator are needed"]),
        ("[run]\nseed = 7", "run = 3", ["run = 3", "table"]),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(run_file: Path, old: str, new: str, parts: list[str]) -> None:
    assert old in FILE
    message = refusal(run_file, text=FILE.replace(old, new, 1))
    assert message.startswith(str(run_file)), message
    for part in parts:
        assert part in message


def test_overrides_replace_keys_in_order(run_file: Path) -> None:
    settings = load(run_file, "budget.candidates=60", "run.title=two words", "budget.candidates=61", "budget.usd=1.5")
    assert (settings.budget.candidates, settings.budget.usd, settings.run.title) == (61, 1.5, "two words")
    assert load(run_file, "search.neighbours=").search.options == Climb()
    assert load(run_file, "task.splits.extra=search.json").task.splits["extra"] == "search.json"


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("budget.candidate=60", ["[budget]", "Did you mean 'candidates'"]),
        ("bugdet.candidates=60", ["Did you mean 'budget'"]),
        ("candidates=60", ["budget.candidates"]),
        ("budget.candidates=six", ["'six'", "expected integer, got string"]),
        ("budget.candidates.more=6", ["budget.candidates is a value, not a table"]),
        ("budget", ["KEY=VALUE"]),
        ("budget.=6", ["KEY=VALUE"]),
    ],
)
def test_a_bad_override_is_the_place_that_an_error_names(run_file: Path, override: str, parts: list[str]) -> None:
    message = refusal(run_file, override)
    assert message.startswith(f"--set {override}:"), message
    for part in parts:
        assert part in message


def test_an_error_elsewhere_does_not_blame_an_override(run_file: Path) -> None:
    message = refusal(run_file, "budget.usd=3", text=FILE.replace("candidates = 40", "candidats = 40"))
    assert message.startswith(str(run_file))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=60", 60),
        ("a.b=0.5", 0.5),
        ("a.b=true", True),
        ('a.b="60"', "60"),
        ('a.b=["x", "y"]', ["x", "y"]),
        ("a.b=litellm:openai/gpt-4o", "litellm:openai/gpt-4o"),
        ("a.b=k=v", "k=v"),
        ("a.b=", None),
        ("a.b=1\nc = 2", "1\nc = 2"),
    ],
)
def test_the_value_of_an_override_is_toml_or_text(text: str, value: Any) -> None:
    assert parse_override(text) == (("a", "b"), value)


SECRET = "sk-proj-4f7Qa9Zx81"


@pytest.mark.parametrize(
    "table",
    [
        f'[proposer]\napi_key_env = "{SECRET}"',
        f'[proposer.extra.extra_body]\nkey = "{SECRET}"',
        f'[proposer.extra.extra_body]\nlist = ["{SECRET}"]',
        '[proposer.extra.extra_body]\npassword = "correct horse"',
        '[proposer.extra.extra_body]\nheader = "Bearer abc"',
        f'[proposer]\nunknown = "{SECRET}"',
        '[proposer]\ntemperature = "AKIAQWERTY123"',
    ],
)
def test_a_secret_is_refused_and_not_repeated(run_file: Path, table: str) -> None:
    message = refusal(run_file, text=f"{FILE}\n{table}\n")
    assert "settings are recorded" in message
    assert "api_key_env" in message
    for secret in (SECRET, "correct horse", "Bearer abc", "AKIAQWERTY123"):
        assert secret not in message


def test_a_secret_in_an_override_is_not_repeated_either(run_file: Path) -> None:
    message = refusal(run_file, f"proposer.api_key_env={SECRET}")
    assert "proposer.api_key_env" in message
    assert SECRET not in message


def test_names_and_ordinary_words_are_no_secrets(run_file: Path) -> None:
    settings = load(run_file, "proposer.api_key_env=OPENAI_API_KEY", "task.description=Use sk-learn or ask-me-12.")
    assert effective(settings)["proposer"]["api_key_env"] == "OPENAI_API_KEY"


def test_settings_made_in_code_are_checked_for_secrets_too(run_file: Path) -> None:
    settings = msgspec.structs.replace(
        load(run_file), run=msgspec.structs.replace(load(run_file).run, title=f"key {SECRET}00000000")
    )
    with pytest.raises(SettingsError, match=r"run\.title"):
        effective(settings)


def test_effective_settings_are_plain_complete_and_decode_again(run_file: Path) -> None:
    settings = load(run_file)
    plain = effective(settings)
    assert msgspec.json.decode(msgspec.json.encode(plain)) == plain
    assert plain["search"] == {"strategy": "climb", "neighbours": 4, "rule": "best", "step": 1.0}
    assert plain["budget"] == {"candidates": 40, "usd": None}
    assert plain["proposer"]["tries"] == 4
    assert revise(plain, [], strategy_settings=strategy_settings) == settings
    assert model_settings(plain["proposer"]).timeout_seconds == settings.proposer.timeout_seconds


def test_a_run_goes_on_under_other_settings_and_the_difference_is_known(run_file: Path) -> None:
    old = effective(load(run_file))
    overrides = ["budget.candidates=60", "search.neighbours=", "task.splits.search=x"]
    new = effective(revise(old, overrides[:2], strategy_settings=strategy_settings))
    assert diff(old, new) == {"search.neighbours": (4, 3), "budget.candidates": (40, 60)}
    assert diff(old, old) == {}
    for fixed in ("task.splits.search=x", "run.seed=2", "search.strategy=other", "task.name="):
        with pytest.raises(SettingsError, match="fixed"):
            revise(old, [fixed], strategy_settings=strategy_settings)


def test_the_difference_knows_keys_that_came_and_went() -> None:
    assert diff({"a": {"x": 1, "y": {}}}, {"a": {"y": {}}, "b": [1]}) == {"a.x": (1, None), "b": (None, [1])}


def test_a_money_budget_needs_what_a_request_may_cost(run_file: Path) -> None:
    model = "proposer.model=litellm:openai/gpt-4o-mini"
    assert "budget.usd = 3.0 needs proposer.usd" in refusal(run_file, model, "budget.usd=3")
    assert "not a single request" in refusal(run_file, model, "budget.usd=3", "proposer.usd=4")
    assert load(run_file, model, "budget.usd=3", "proposer.usd=0.1").budget.usd == 3.0
    free = ("proposer.usd_per_million_input=0", "proposer.usd_per_million_output=0")
    assert load(run_file, model, "budget.usd=3", *free).proposer.usd == 0.0
    assert load(run_file, "budget.usd=3").budget.usd == 3.0


def test_another_kind_of_judge_needs_no_harness() -> None:
    task = {"name": "n", "direction": "maximize", "interface": "i", "judge": "hash", "splits": {"search": "s"}}
    settings = decode_settings(
        {"task": task, "search": {"strategy": "climb"}}, source="here", strategy_settings=strategy_settings
    )
    assert (settings.task.harness, settings.task.evaluator) == ("", "")


class Inner(msgspec.Struct):
    size: Bytes | None = None


class Outer(msgspec.Struct):
    inner: Inner | None = None
    many: dict[str, Inner] = {}


def test_nested_tables_name_the_whole_path() -> None:
    assert decode_table({"many": {"a": {"size": "1.5kB"}}}, Outer, "f").many["a"].size == 1500
    assert decode_table({"inner": None}, Outer, "f").inner is None
    for table, place in [
        ({"inner": {"sise": 1}}, r"^f: the table \[inner\] has no key 'sise'. Did you mean 'size'"),
        ({"many": {"a": {"size": True}}}, r"^f: many.a.size = True: expected integer, got boolean"),
        ({"many": {"a": 3}}, r"^f: many.a = 3: expected a table"),
    ]:
        with pytest.raises(SettingsError, match=place):
            decode_table(table, Outer, "f")


@given(st.integers(1, 10**6), st.sampled_from(["B", "KiB", "MiB", "GiB", "kB", "MB", "GB", ""]))
def test_bytes_are_counted_in_their_unit(count: int, unit: str) -> None:
    factor = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    assert decode_table({"size": f"{count} {unit}".strip()}, Inner, "f").size == count * factor
