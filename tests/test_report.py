"""What `report.html` says of predictions, against scikit-learn and plain loops, and how the page is made."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from hetjax.graph.names import Ids, Names
from hetjax.options.config import Config, Data, Mesh, Model, Sampling, Train
from hetjax.results.report import ReportInputs, page, write
from hetjax.tasks import class_report
from hetjax.tasks import class_scores as scores
from hetjax.tasks.predictions import ClassPredictions

CLASSES = 5


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES - 1, 300)  # the last class has no node
    logits = rng.standard_normal((300, CLASSES)).astype(np.float32)
    logits[np.arange(300), labels] += 1
    logits[:, 1] = -9  # never predicted
    return labels, logits


def test_scores_of_classes_equal_those_of_scikit_learn(drawn):
    labels, logits = drawn
    predicted = logits.argmax(axis=1)
    found = scores.per_class(labels, predicted, CLASSES)
    expected = precision_recall_fscore_support(labels, predicted, labels=range(CLASSES), zero_division=np.nan)
    for own, theirs in zip(found, expected):
        np.testing.assert_allclose(own, theirs)
    for some in (np.arange(CLASSES), np.array([0, 3])):
        np.testing.assert_array_equal(
            scores.confusion(labels, predicted, some), confusion_matrix(labels, predicted, labels=some)
        )
    matrix = confusion_matrix(labels, predicted, labels=range(CLASSES))
    np.fill_diagonal(matrix, 0)
    pairs = sorted(((a, b, n) for (a, b), n in np.ndenumerate(matrix) if n), key=lambda pair: -pair[2])
    assert scores.confused(labels, predicted, 3) == pairs[:3]
    assert scores.confused(labels, labels, 3) == []


def test_memory_for_scores_grows_with_the_classes_and_not_with_their_square():
    labels = np.array([0, 2**20 - 1, 5], np.int32)
    predicted = np.array([0, 5, 5], np.int32)
    assert scores.per_class(labels, predicted, 2**20).nodes[-1] == 1
    assert scores.confusion(labels, predicted, np.array([5, 2**20 - 1])).tolist() == [[1, 0], [1, 0]]
    assert scores.confused(labels, predicted, 9) == [(2**20 - 1, 5, 1)]


def test_scores_of_several_labels_equal_those_of_scikit_learn():
    rng = np.random.default_rng(1)
    labels, predicted = rng.integers(0, 2, (2, 50, 4))
    expected = precision_recall_fscore_support(labels, predicted, zero_division=np.nan)
    for own, theirs in zip(scores.per_class(labels, predicted, 4), expected):
        np.testing.assert_allclose(own, theirs)


def test_calibration_is_a_loop_over_bins():
    rng = np.random.default_rng(2)
    probability = np.append(rng.random(200), [0.0, 0.1, 0.2, 1.0]).astype(np.float32)
    right = rng.random(204) < probability
    found, error = scores.calibration(probability, right), 0.0
    for n, (low, high) in enumerate(zip(found.edges, found.edges[1:])):
        wide = probability.astype(float)
        here = (wide > low) & (wide <= high) if n else wide <= high
        assert found.numbers[n] == here.sum()
        np.testing.assert_allclose(found.probability[n], wide[here].mean())
        np.testing.assert_allclose(found.right[n], right[here].mean())
        error += abs(wide[here].mean() - right[here].mean()) * here.mean()
    np.testing.assert_allclose(found.error, error)


SUMMARY = {
    "test_accuracy": 0.5,
    "test_micro_f1": 0.5,
    "test_macro_f1": None,
    "validation_accuracy": 0.25,
    "epoch": 2,
    "seconds": 1.5,
    "peak_memory_bytes": 2**30,
    "milliseconds_per_step": {"step": 3.25},
    "sent_per_step": [{"kind": "gradients", "collective": "all-reduce", "axis": "data", "bytes": 2048}],
    "compiled_programs": 3,
    "kept_programs": 1,
    "cache": [
        {"node_type": "a", "place": "host", "kept": 1, "rows": 2, "hits": 1, "misses": 1, "hit_rate": 0.5}
        | {"sent_bytes": 5, "returned_bytes": 3}
    ],
    "processes": 1,
    "versions": {"hetjax": "0.1.0", "jax": "0.10"},
    "device": "cpu",
    "seed": 3,
    "nodes": 10,
    "edges": 20,
    "weights": 30,
    "learnable_features": 40,
}
RECORDS = [
    {"epoch": n, "step": n, "train_loss": 1.0 / n, "validation_loss": 1.0, "validation_accuracy": 0.25} for n in (1, 2)
]


class Outline(HTMLParser):
    """The headings, images and tables of a page, and every address in it."""

    def __init__(self, text: str):
        super().__init__()
        self.headings, self.images, self.heads, self.opened, self.addresses = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(given)
        if tag == "th":
            self.heads.append(given)
        if tag not in ("meta", "img", "br", "link"):
            self.opened.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "srcset")]

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag


def inputs(tmp_path, drawn, **more) -> ReportInputs:
    labels, logits = drawn
    names = Names(classes=Ids(["<b>bold</b>", "two & a half", "$x^2$", "vier", "5"]))
    config = Config(Data(), Model(), Sampling(fanout=(3, 2)), Train(epochs=2), Mesh(data=2))
    test = ClassPredictions("paper", logits, names)
    return ReportInputs(
        config, SUMMARY, RECORDS, class_report.parts(test, labels, tmp_path), tmp_path, "rgcn on a <graph>"
    )._replace(**more)


def test_a_page_needs_nothing_else_and_can_be_read_aloud(tmp_path, drawn):
    write(inputs(tmp_path, drawn), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    found = Outline(text)
    assert not found.opened and found.headings == [1] + [2] * (len(found.headings) - 1)
    headings = re.findall("<h2 id=[^>]*>([^<]*)<", text)
    assert headings == ["Curves", "Classes", "Confusion", "Calibration", *page_costs()]
    assert all(image["alt"] and image["src"].startswith("data:image/") for image in found.images)
    assert len(found.images) == 4 and all(head.get("scope") in ("row", "col") for head in found.heads)
    assert all(address.startswith(("data:", "#")) for address in found.addresses)
    assert "http" not in re.sub(r'src="data:[^"]*"', "", text)
    assert "&lt;b&gt;bold&lt;/b&gt;" in text and "<b>" not in text and "$x^2$" in text
    assert "python -m hetjax.train \\\n  --workdir" in text and "--mesh.data 2" in text and "gradients" in text
    assert not re.search(r"\bnan\b|None", re.sub(r'src="data:[^"]*"', "", text))


def page_costs() -> list[str]:
    return ["Time and bytes", "Feature cache", "Plan", "How it was made"]


def test_a_page_without_test_nodes_and_one_of_several_labels(tmp_path, drawn):
    write(inputs(tmp_path, drawn, task_parts=()), tmp_path / "none.html")
    assert re.findall("<h2 id=[^>]*>([^<]*)<", (tmp_path / "none.html").read_text()) == ["Curves", *page_costs()]
    labels = np.random.default_rng(0).integers(0, 2, (300, CLASSES))
    several = ClassPredictions("paper", drawn[1], Names(), multilabel=True)
    write(inputs(tmp_path, drawn, task_parts=class_report.parts(several, labels, tmp_path)), tmp_path / "several.html")
    headings = re.findall("<h2 id=[^>]*>([^<]*)<", (tmp_path / "several.html").read_text())
    assert headings == ["Curves", "Classes", "Calibration", *page_costs()]


def test_a_page_of_many_classes_says_which_it_shows(tmp_path, drawn, monkeypatch):
    monkeypatch.setattr(class_report, "MOST_ROWS", 2)
    monkeypatch.setattr(class_report, "MOST_CONFUSED", 1)
    write(inputs(tmp_path, drawn), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "2 of 5 classes are shown" in text and "The 1 largest of 5 classes." in text


def test_a_page_has_the_baselines_beside_the_model(tmp_path, drawn):
    found = {"larger class": {"accuracy": 0.125, "macro_f1": 0.1, "how": "the class of most training nodes"}}
    found |= {"logistic regression": {"how": "left out: the target type has no features"}}
    write(inputs(tmp_path, drawn, summary=SUMMARY | {"baselines": found}), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    rows = [
        re.findall(r"<t[hd][^>]*>([^<]*)<", row)
        for row in text.split("<tr>")
        if "larger class" in row or "logistic" in row
    ]
    assert rows[0][:2] == ["larger class", "12.5 %"] and rows[1][1] == "–" and "left out" in rows[1][-1]
    assert text.index(">this model<") < text.index(">larger class<")


def test_a_report_that_fails_is_a_line(tmp_path, drawn, caplog):
    write(inputs(tmp_path, drawn, summary={}), tmp_path / "report.html")
    assert caplog.messages[-1].startswith("no report.html: lacks") and not list(tmp_path.iterdir())


def test_the_command_is_what_was_changed():
    config = Config(Data(path="a b", format="store"), Model(head=False), Sampling(fanout=(3, 2)), Train(epochs=9))
    found = page.command(config, "runs/x")
    lines = "python -m hetjax.train", "--workdir runs/x", "--data.format store", "--data.path 'a b'"
    lines += "--model.head false", "--sampling.fanout '[3,2]'", "--train.epochs 9"
    assert found == " \\\n  ".join(lines)


def test_headings_of_tables_are_not_broken_within_a_word_and_sentences_are_plain(tmp_path, drawn):
    write(inputs(tmp_path, drawn), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    style = re.search("<style>(.*)</style>", text, re.S)[1]
    broken = [rule for rule in re.findall(r"([^{}]+)\{[^{}]*overflow-wrap: anywhere", style) if "tbody" not in rule]
    assert [rule.strip() for rule in broken] == ["body"] and "table { border-collapse: collapse" in style
    assert not re.search("<th scope=.col.[^>]*>[^<]*-", text)  # a hyphen at which no line ends
    assert "the probability of a prediction and the share of predictions that are right differ by this much" in text
