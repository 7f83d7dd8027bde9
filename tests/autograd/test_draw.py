"""Drawings of the graph: what is in them, and that nothing in the picture overlaps."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest

import weft
from weft.autograd import draw_graph
from weft.autograd.draw import _boxes, _names, _noted
from weft.autograd.picture import _laid_out


def logistic():
    """The cost of logistic regression with two inputs and two examples."""
    w = weft.tensor([0.5, -0.3], requires_grad=True)
    b = weft.tensor(0.1, requires_grad=True)
    x = weft.tensor([[1.0, 2.0], [3.0, -1.0]])
    y = weft.tensor([1.0, 0.0])

    def cost():
        p = 1 / (1 + (-(x @ w + b)).exp())
        return -(y * p.log() + (1 - y) * (1 - p).log()).mean()

    return cost, {"w": w, "b": b}


def network():
    weft.manual_seed(0)
    first, second = weft.randn(8, 4, requires_grad=True), weft.randn(3, 8, requires_grad=True)

    def run():
        h = (weft.ones(5, 4) @ first.T).tanh()
        a, c = h.split([4, 4], 1)
        return ((h @ second.T).softmax(1) ** 2).mean() + (a * c).sum() * 0.1 + (first**2).sum()

    return run, {"first": first, "second": second}


def test_listing():
    w = weft.tensor([1.0, 2.0], requires_grad=True)
    assert draw_graph((w * 3).sum(), params={"w": w}).splitlines() == [
        "w             (2,)    leaf",
        "%1 = mul(w)   (2,)",
        "%2 = sum(%1)  scalar  result",
    ]


def test_values_and_gradients():
    """σ at 0: value 0.5, and the gradient 0.25 that arrives at the input."""
    u = weft.tensor(0.0, requires_grad=True)
    text = draw_graph(lambda: 1 / (1 + (-u).exp()), params={"u": u}, values=True, grads=True)
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    assert rows[0] == ["u", "scalar", "= 0", "grad 0.25", "leaf"]
    assert rows[-1][2:] == ["= 0.5", "grad 1", "result"]


def test_gradients_are_those_of_backward():
    cost, params = logistic()
    text = draw_graph(cost, params=params, grads=True)
    cost().backward()
    for name, tensor in params.items():
        line = next(row for row in text.splitlines() if row.startswith(name + " "))
        shown = [float(v) for v in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", line.split("grad")[1])]
        assert shown == pytest.approx(tensor.grad.reshape(-1).tolist(), rel=1e-3)


def test_graph_is_left_as_it_was():
    cost, params = logistic()
    y = cost()
    calls = []
    y.register_hook(calls.append)
    params["w"].register_hook(calls.append)
    draw_graph(y, "svg", grads=True)
    assert calls == [] and params["w"].grad is None
    y.backward()
    assert len(calls) == 2
    assert "leaf1" in draw_graph(y)  # a freed graph can still be drawn, without all sizes


def test_several_outputs_are_told_apart():
    run, params = network()
    text = draw_graph(run(), params=params)
    assert re.search(r"%\d+\.0 = split\(%\d+\) +\(5, 4\)", text) and re.search(r"mul\(%\d+\.0, %\d+\.1\)", text)


def test_names_may_come_from_a_module():
    class Like:
        def named_parameters(self):
            return [("layer.weight", w)]

    w = weft.ones(2, requires_grad=True)
    assert "layer.weight" in draw_graph(w * 2, params=Like())


def test_same_result_twice_and_leaf_as_result():
    x = weft.ones(2, requires_grad=True)
    assert "result" in draw_graph(x)
    assert draw_graph([x * 2, x * 3]).count("result") == 2


def test_errors():
    with pytest.raises(RuntimeError, match="requires_grad=True"):
        draw_graph(weft.ones(2))
    with pytest.raises(ValueError, match="format"):
        draw_graph(weft.ones(2, requires_grad=True), "png")


# --------------------------------------------------------------------------------------------- SVG


@pytest.mark.parametrize("make", [logistic, network])
def test_svg_is_well_formed_and_complete(make):
    run, params = make()
    root = ElementTree.fromstring(draw_graph(run, "svg", params=params, values=True, grads=True))
    words = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert set(params) <= set(words) and any("δ" in w for w in words)
    listing = draw_graph(run, params=params)
    boxes = [w for w in words if not w.startswith("δ") and "=" not in w and "(" not in w and w != "scalar"]
    assert len(boxes) == len([row for row in listing.splitlines() if ".1 = " not in row])


@pytest.mark.parametrize("make", [logistic, network])
def test_no_boxes_or_labels_overlap(make):
    run, params = make()
    result, noted = _noted(run)
    _, arrows, table = _laid_out(_boxes([result], _names(params), noted, True, True))
    for row in table:
        for a, b in itertools.pairwise(row):
            assert a.x + a.right < b.x - b.left
    for above, below in itertools.pairwise(table):
        assert max(cell.exit for cell in above) < min(cell.top for cell in below)
    for path in arrows:  # every arrow goes down one row at a time, so it never crosses a box
        assert [cell.row for cell in path] == list(range(path[0].row, path[-1].row + 1))
        assert all(cell.box is None for cell in path[1:-1])


def test_text_is_escaped():
    x = weft.ones(2, requires_grad=True)
    ElementTree.fromstring(draw_graph(x * 2, "svg", params={"<&>": x}))


@pytest.mark.parametrize("make", [logistic, network])
def test_dot_has_the_boxes_and_arrows_of_the_graph(make):
    run, params = make()
    result, noted = _noted(run)
    boxes = _boxes([result], _names(params), noted, True, True)
    nodes, edges = read_dot(draw_graph(run, "dot", params=params, values=True, grads=True))
    labels = [text.split("\n")[0] for text in nodes.values()]
    assert labels == [box.label for box in boxes]
    drawn = sorted((labels[int(a[1:])], labels[int(b[1:])]) for a, b, _ in edges)
    wanted = {
        (id(source), number, id(box)): (source.label, box.label) for box in boxes for source, number in box.inputs
    }
    assert drawn == sorted(wanted.values())
    assert all("δ = " in text for a, _, text in edges if labels[int(a[1:])] in params)


def test_dot_quotes_names():
    x = weft.ones(2, requires_grad=True)
    nodes, edges = read_dot(draw_graph(x * 2, "dot", params={'a "b" \\ <c>\nd': x}))
    assert next(iter(nodes.values())) == 'a "b" \\ <c>\nd'
    assert edges == [("n0", "n1", "(2,)")]


def read_dot(text):
    """The labels of the nodes, and (from, to, label) of the edges, of a graph in Graphviz's language."""
    assert text.startswith("digraph weft {\n") and text.endswith("}\n")
    string = r'"((?:[^"\\]|\\.)*)"'
    plain = lambda s: re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], s)
    nodes = {m[1]: plain(m[2]) for m in re.finditer(rf"^  (n\d+) \[label={string}, shape=\w+, [^\n]*\];$", text, re.M)}
    edges = [(m[1], m[2], plain(m[3])) for m in re.finditer(rf"^  (n\d+) -> (n\d+) \[label={string}\];$", text, re.M)]
    assert len(nodes) + len(edges) + 5 == len(text.splitlines())  # nothing else is in it
    return nodes, edges


def test_long_chain():
    x = weft.ones((), requires_grad=True)
    y = x
    for _ in range(300):
        y = y * 1.01
    assert len(draw_graph(y).splitlines()) == 301
    ElementTree.fromstring(draw_graph(y, "svg"))
