"""Whatever is wrong with what a user gives: exit code 2 and one sentence that says it."""

import errno
import io
import json
import os
import pickle
import re
import zipfile

import pytest
import tiny
from tiny import keys_may_be_split_up  # noqa: F401

from wmg import config, paper
from wmg.agents.gru.settings import GRUSettings
from wmg.runs import runfolder, train

TRAIN = ["train", "pathfinding/wmg"]
BABYAI = ["train", "babyai/level1/wmg-factored"]
CNN = ["train", "babyai/level1/cnn-gru"]
BAD = {
    # what there is not
    "command": (["frob"], "there is no command 'frob'; there are train, eval,"),
    "command with a typo": (["trian"], "there is no command 'trian'; did you mean 'train'?"),
    "preset": (
        ["train", "pathfinding/wgm"],
        "there is no preset 'pathfinding/wgm'; did you mean 'pathfinding/wmg'?",
    ),
    "unlike any preset": (["train", "x"], "there is no preset 'x'; wmg list shows them"),
    "no preset": (
        ["train"],
        "name a preset (wmg list shows them), an environment with --env, or a folder with "
        "--resume or --from",
    ),
    "target": (
        ["reproduce", "depth-baseline"],
        "there is no target 'depth-baseline'; did you mean 'depth-baselines'?",
    ),
    "no target": (["reproduce"], "name a target: parameter-counts,"),
    "cell": (
        ["reproduce", "pathfinding", "--cells", "lstm"],
        "pathfinding has no cell 'lstm'; it has wmg, nr-wmg, gru",
    ),
    "group": (
        ["reproduce", "pathfinding", "--runs=4", "--group-size=2", "--groups=2", "--json"],
        "there is no group 2: 4 runs make 2 groups",
    ),
    "results": (
        ["reproduce", "pathfinding", "--report-only", "--out=none"],
        "there are no results of pathfinding in none",
    ),
    "model": (["eval", "wgm"], "there is no model 'wgm': not a file, not a run folder, and"),
    "no model": (["eval"], "name a model: a file, a run folder, a shipped name, random or"),
    "option and value": ([*TRAIN, "--zzz=3"], "there is no option --zzz; --help lists"),
    "option": ([*TRAIN, "--stepz", "3"], "there is no option --stepz; did you mean --steps?"),
    "agent setting": (
        [*TRAIN, "--agent.slotz", "3"],
        "there is no option --agent.slotz; did you mean --agent.slots?",
    ),
    "setting of another agent": (
        ["train", "pathfinding/gru", "--agent.slots=3"],
        "there is no option --agent.slots;",
    ),
    "setting of another environment": (
        [*BABYAI, "--env.nodes=3"],
        "there is no option --env.nodes;",
    ),
    "setting of no environment": (
        ["eval", "random", "--env.level=GoToObj", "--env.nodes=3"],
        "there is no option --env.level;",
    ),
    "unlike any option": (["list", "--zzz"], "there is no option --zzz; --help lists them all"),
    "word too many": ([*TRAIN, "again"], "'again' belongs to no option; --help lists them all"),
    "resume": (["train", "--resume", "none"], "none is not a run folder: it has no config.json"),
    "branch": (["train", "--from=none"], "none is not a run folder: it has no config.json"),
    # values
    "not whole": ([*TRAIN, "--steps=1.5"], "--steps must be a whole number, got '1.5'"),
    "no number": ([*TRAIN, "--hyper.discount=a"], "--hyper.discount must be a number, got 'a'"),
    "no groups": (
        ["reproduce", "pathfinding", "--groups=a"],
        "--groups must be a whole number, got 'a'",
    ),
    "no value": ([*TRAIN, "--steps"], "--steps needs a value"),
    "value of a switch": (["list", "--json=yes"], "--json takes no value"),
    "option twice": ([*TRAIN, "--steps=1", "--steps", "2"], "--steps is given twice"),
    "on and off": (["list", "--json", "--no-json"], "--json is given twice"),
    "option missing": (["tune", "workers", "s"], "--storage is missing; --help describes it"),
    "long value": ([*TRAIN, f"--steps={'x' * 9999}"], f"got '{'x' * 77}...'\n"),
    "long option": ([*TRAIN, f"--{'x' * 9999}"], f"no option --{'x' * 75}...; --help"),
    "long word": ([*TRAIN, "x" * 9999], f"'{'x' * 77}...' belongs to no option"),
    "no choice": (
        [*TRAIN, "--agent.memory=some"],
        "--agent.memory must be one of 'memos', 'observations', 'none', got 'some'",
    ),
    "mirror": (
        [*TRAIN, "--mirror=paper"],
        "--mirror must be one of 'tensorboard', 'wandb', got 'paper'",
    ),
    "older": (
        ["eval", "random", "--older=x"],
        "--older must be one of 'as oldest', 'without age', got 'x'",
    ),
    "negative size": (
        [*TRAIN, "--agent.slots=-1"],
        "slots must be a whole number from 0 to 65,536, got -1",
    ),
    "no Memos": ([*TRAIN, "--agent.slots=0"], "slots must be positive for memory=memos, got 0"),
    "slots of no memory": (
        [*TRAIN, "--agent.memory=none", "--agent.slots=3"],
        "--agent.slots has no effect: memory is none",
    ),
    "Memos of past observations": (
        [*TRAIN, "--agent.memo-size=3", "--agent.memory=observations"],
        "--agent.memo-size has no effect: memory is observations",
    ),
    "lifetimes without Memos": (
        [*TRAIN, "--agent.memory=observations", "--agent.lifetimes=attention"],
        "lifetimes must be 'fixed' for memory=observations, which keeps no Memos, got 'attention'",
    ),
    "numbers of fixed lifetimes": (
        [*TRAIN, "--agent.drop-below=0.1"],
        "--agent.drop-below has no effect: lifetimes is fixed",
    ),
    "recent attention that never fades": (
        [*TRAIN, "--agent.lifetimes=attention", "--agent.attention-decay=1"],
        "attention_decay must be a number from 0 to less than 1, got 1",
    ),
    "edges between Factors that are not there": (
        [*TRAIN, "--agent.edges=factors"],
        "edges must be 'none' or 'memos' for an observation without Factors, got 'factors'",
    ),
    "an odd edge": (
        [*TRAIN, "--agent.edges=factors", "--agent.edge-size=3"],
        "edge_size must be an even number, got 3",
    ),
    "size of no edges": (
        [*TRAIN, "--agent.edges=memos", "--agent.edge-size=4"],
        "--agent.edge-size has no effect: edges is memos",
    ),
    "reads of no store": (
        [*TRAIN, "--agent.reads=2"],
        "--agent.reads has no effect: store is 0",
    ),
    "numbers of no goal": (
        [*BABYAI, "--no-goal", "--goal.success=0.5"],
        "--goal.success has no effect: --no-goal leaves the goal out",
    ),
    "annealing by nothing": (
        [*TRAIN, "--hyper.anneal-every=1000"],
        "--hyper.anneal-every has no effect: anneal is 1, so the learning rate is constant",
    ),
    "absurd size": (
        [*TRAIN, "--agent.memo-size=1000000"],
        "memo_size must be a whole number from 0 to 65,536, got 1000000",
    ),
    "sizes that do not fit": (
        [*TRAIN, "--agent.heads=60000", "--agent.head-size=60000"],
        "1 run(s) of an agent this size need about",
    ),
    "nodes": ([*TRAIN, "--env.nodes=1"], "nodes must be a whole number from 2 to 256, got 1"),
    "no steps": ([*TRAIN, "--steps=0"], "steps must be a whole number from 1 to"),
    "too many runs": ([*TRAIN, "--runs=10000000"], "runs must be a whole number from 1 to"),
    "negative seed": ([*TRAIN, "--seed=-1"], "seed must be a whole number from 0 to"),
    "not a number": (
        [*TRAIN, "--hyper.learning-rate=nan"],
        "learning_rate must be a finite number, not negative, got nan",
    ),
    "no learning": ([*TRAIN, "--hyper.learning-rate=0"], "learning_rate must be positive, got 0"),
    "discount": ([*TRAIN, "--hyper.discount=1.5"], "discount must be at most 1, got 1.5"),
    "save seconds": ([*TRAIN, "--save-seconds=-1"], "save_seconds must be a number from 0 on, got"),
    "vary what": (
        [*TRAIN, "--vary", "slots=1"],
        "vary must be NAME=... with one of learning_rate, discount,",
    ),
    "vary how": (
        [*TRAIN, "--vary", "entropy=x"],
        "vary must be entropy=NUMBER,NUMBER,..., got 'entropy=x'",
    ),
    "vary how many": (
        [*TRAIN, "--runs=3", "--vary", "entropy=0.1,0.2"],
        "vary must be a list of 3 numbers, one per run, got 'entropy=0.1,0.2'",
    ),
    "vary twice": (
        [*TRAIN, "--vary", "entropy=0.1", "entropy=0.2"],
        "vary must be different numbers, each once, got ('entropy=0.1', 'entropy=0.2')",
    ),
    "vary to nonsense": ([*TRAIN, "--vary", "discount=7"], "discount must be at most 1, got 7"),
    "one episode": (["eval", "random", "--episodes=1"], "episodes must be from 2 to"),
    "no test seed": (["eval", "random", "--test-seed=-1"], "test_seed must be from 0 to"),
    "depth": (["eval", "depth-0"], "depth must be a whole number from 1 to 256, got 0"),
    "run of no folder": (["eval", "random", "--run=1"], "--run chooses a run of a run folder"),
    "run": (["eval", "random", "--run=x"], "--run must be a whole number, got 'x'"),
    "run of 5,000 digits": (
        ["eval", "random", f"--run={'9' * 5000}"],
        "--run must have at most 9 digits, got 5,000",
    ),
    "seed of 5,000 digits": (
        [*TRAIN, f"--seed={'9' * 5000}"],
        "--seed must be a whole number of fewer digits",
    ),
    "depth of 20 digits": (
        ["eval", f"depth-{'9' * 20}"],
        "there is no model 'depth-99999999999999999999'",
    ),
    "slots of random": (["eval", "random", "--slots=9"], "only WMG agents have memory slots"),
    "age without slots": (["eval", "random", "--oldest-age=2"], "it needs --slots"),
    "runs": (["reproduce", "pathfinding", "--runs=0"], "runs must be from 1 to 100,000,000, got 0"),
    "runs beyond counting": (
        ["reproduce", "pathfinding", "--runs=9999999999"],
        "must be from 1 to",
    ),
    "no seconds": (["bench", "--seconds=0"], "seconds must be above 0 and at most 86,400, got 0.0"),
    "seconds": (["bench", "--seconds=nan"], "seconds must be above 0 and at most 86,400, got nan"),
    "nameless model": (["eval", ""], "name a model: a file, a run folder"),
    "not a new file": (["eval", "random", "--out", "."], ". already exists"),
    "not a new bench": (["bench", "--out", "."], ". already exists"),
    "two ways to begin": (
        ["train", "pathfinding/wmg", "--resume=a", "--from=b"],
        "--resume goes on in its own folder: it takes neither --out nor --from",
    ),
    # environments and agents
    "level": (
        [*BABYAI, "--env.level=GoToSeq"],
        "--env.level must be one of 'GoToObj', 'GoToRedBallGreyBoxes', 'GoToRedBallGrey', "
        "'GoToRedBall', 'GoToLocal', 'PickupLoc', got 'GoToSeq'",
    ),
    "level to play": (
        ["eval", "random", "--env.level=GoToSeq"],
        "--env.level must be one of 'GoToObj',",
    ),
    "format": (
        [*BABYAI, "--env.observation=pixels"],
        "--env.observation must be one of 'factored', 'flat', 'image', 'flattened', 'words', "
        "got 'pixels'",
    ),
    "reward": (
        [*BABYAI, "--env.reward=dense"],
        "--env.reward must be one of 'binary', 'minigrid', got 'dense'",
    ),
    "WMG on an image": (
        [*BABYAI, "--env.observation=image"],
        "the WMG agent takes no image, but the observation has one",
    ),
    "GRU on Factors": (
        ["train", "babyai/level1/gru-flat", "--env.observation=factored"],
        "the GRU agent takes no Factors, but the observation has objects",
    ),
    "GRU on an image": (
        ["train", "babyai/level1/gru-flat", "--env.observation=image"],
        "the GRU agent takes no image, but the observation has one",
    ),
    "CNN+GRU without an image": (
        [*CNN, "--env.observation=flat"],
        "the CNN+GRU agent needs an image, but the observation has none",
    ),
    "two channels": ([*CNN, "--agent.channels", "8", "8"], "--agent.channels needs 3 values"),
    "channels": (
        [*CNN, "--agent.channels", "8", "8", "many"],
        "--agent.channels must be 3 whole numbers, got 'many'",
    ),
    "no channels": (
        [*CNN, "--agent.channels", "8", "8", "0"],
        "channels must be a tuple of three whole numbers from 1 to 4,096, got (8, 8, 0)",
    ),
    "depth-N on BabyAI": (
        ["eval", "depth-2", "--env.level=GoToLocal"],
        "the Depth-n agent only plays Pathfinding",
    ),
    # files
    "convert nothing": (["convert"], "name what to convert and the file to write"),
    "convert to what": (["convert", "random", "a.txt"], "must end in .safetensors or .pth, got"),
    "convert what": (["convert", "a.pth", "b.safetensors"], "a.pth"),
}


def assert_one_sentence(capsys, args, sentence):
    code, out, err = tiny.command(capsys, *args)
    assert code == 2 and out == ""
    assert err.startswith("wmg: ") and err.count("\n") == 1 and err.endswith("\n")
    assert sentence in err
    assert "Traceback" not in err and not re.search(r"[╭│╰]|\x1b| {2}", err)


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_and_nothing_is_written(what, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_one_sentence(capsys, *BAD[what])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("preset", paper.PRESETS)
def test_sizes_are_checked_for_every_agent(preset, capsys):
    wrong = ["train", preset, "--agent.actor-critic=0"]
    assert_one_sentence(capsys, wrong, "actor_critic must be a whole number from 1 to 65,536")


@pytest.mark.parametrize("flags", [[], ["--run=0"]])
def test_a_gru_has_no_slots(tmp_path, capsys, flags):
    agent = GRUSettings(embedding=2, size=2, actor_critic=2)
    train.train(config.Config(agent=agent, steps=12), tmp_path / "run")
    args = ["eval", tmp_path / "run", "--slots=4", *flags]
    assert_one_sentence(capsys, args, "only WMG agents have memory slots that can be added to")


def test_a_run_of_a_folder_must_be_there(capsys):
    args = ["eval", tiny.trained(), "--run=2"]
    assert_one_sentence(capsys, args, f"--run must be from 0 to 1 in {tiny.trained()}, got 2")
    args = ["eval", tiny.trained(), "--slots=2"]
    assert_one_sentence(capsys, args, "slots must be at least the 3 of the agent, got 2")


@pytest.mark.parametrize("name", ["there.safetensors", "there.pth"])
def test_converting_overwrites_nothing(tmp_path, capsys, name):
    (tmp_path / name).write_text("precious")
    args = ["convert", tiny.trained(), tmp_path / name]
    assert_one_sentence(capsys, args, f"{tmp_path / name} already exists")
    assert tiny.contents(tmp_path) == {name: b"precious"}


@pytest.mark.parametrize(
    "content", [b"", b"text\n", b"PK\x03\x04 not quite", b"\x80\x02}.", bytes(999)]
)
def test_what_is_not_a_pth_file_is_not_converted(tmp_path, capsys, content):
    (tmp_path / "model.pth").write_bytes(content)
    args = ["convert", tmp_path / "model.pth", tmp_path / "out.safetensors"]
    assert_one_sentence(capsys, args, "model.pth")
    assert not (tmp_path / "out.safetensors").exists()


class Exploit:
    """A pickle that makes a file when it is loaded as pickles usually are."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.system, (f"touch {self.place}",)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_pth_file_that_is_an_exploit_runs_nothing(tmp_path, capsys, zipped):
    exploit = pickle.dumps({"weight": Exploit(tmp_path / "owned")})
    pickle.loads(exploit)
    assert (tmp_path / "owned").exists()  # it does work
    (tmp_path / "owned").unlink()
    if zipped:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("archive/data.pkl", exploit)
        exploit = archive.getvalue()
    (tmp_path / "model.pth").write_bytes(exploit)
    args = ["convert", tmp_path / "model.pth", tmp_path / "out.safetensors"]
    assert_one_sentence(capsys, args, "model.pth")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pth"]


def test_a_safetensors_file_of_others_is_not_converted(tmp_path, capsys):
    (tmp_path / "model.safetensors").write_text("text")
    args = ["convert", tmp_path / "model.safetensors", tmp_path / "out.pth"]
    assert_one_sentence(capsys, args, "is damaged or not a wmg file")


@pytest.mark.parametrize(
    "args",
    [
        ["train", "--from"], ["train", "--resume"], ["train", "pathfinding/wmg", "--out"],
        ["eval"], ["eval", "random", "--levels"], ["eval", "random", "--levels=test", "--out"],
        ["view"], ["view", "random", "--versus"], ["convert", "random"], ["bench", "--out"],
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("file", ["pipe", "/dev/zero"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, capsys, monkeypatch, args, file):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with tiny.time_limit(60):
        assert_one_sentence(capsys, [*args, file], file if args[0] != "convert" else "")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_config_edited_by_hand_is_checked(tmp_path, capsys):
    runfolder.create(tmp_path / "run", tiny.settings(), None)
    file = tmp_path / "run" / "config.json"
    about = json.loads(file.read_text())
    about["config"]["hyper"]["entropy"] = "much"
    file.write_text(json.dumps(about))
    args = ["train", "--resume", tmp_path / "run"]
    assert_one_sentence(capsys, args, "hyper.entropy must be of type float, got 'much'")


@pytest.mark.parametrize("where", ["file/report", "file"])
def test_reports_that_cannot_be_written_are_one_sentence(tmp_path, capsys, where):
    (tmp_path / "file").write_text("")
    args = ["reproduce", "parameter-counts", "--out", tmp_path / where]
    code, _, err = tiny.command(capsys, *args)
    last = err.splitlines()[-1]
    assert code == 2 and last.startswith("wmg: ") and str(tmp_path / "file") in last


def test_a_failing_system_is_one_sentence(capsys, monkeypatch):
    def fail(args):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("wmg.cli.list.run", fail)
    assert_one_sentence(capsys, ["list"], "Input/output error")
