"""Long range: predicting the first symbol after a gap, and the gradient that reaches it.

A sequence is a symbol to remember, a gap of random symbols of the same alphabet, and a question mark at the
end, where the first symbol must be predicted. Counting symbols does not help: only the position tells which
one is asked for. Gradients are those of all logits at the last token with respect to the embedding of each
token. For a plain recurrence with W_h = w Q, Q orthogonal and no nonlinearity, the gradient of the last state
with respect to the first input is w^(n-1).
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from headwork.comparison import experiment
from headwork.comparison.accuracy import Accuracy, budget_sentence, leaders_sentence, mean_accuracies
from headwork.comparison.by_size import BySize, all_accuracies, family_by_size, plot_by_size, values_by_size
from headwork.comparison.experiment import Settings
from headwork.comparison.families import FAMILIES, HEADS, Family, build_with_parameters, parameter_count
from headwork.comparison.measurements import Measurement
from headwork.comparison.panels import add_legend, draw_line, new_panel
from headwork.comparison.section import Results, Section, clauses, on_scale, table, text_of
from headwork.documents import FigureBlock
from headwork.mechanisms import recurrence
from headwork.mechanisms.configs import TransformerConfig
from headwork.mechanisms.fused import FUSED
from headwork.mechanisms.images import classifier_head_specs, recurrent_layer, recurrent_layer_specs
from headwork.mechanisms.parameters import TableParameters, spec_tree
from headwork.mechanisms.texts import token_convolution_specs, token_convolutions
from headwork.mechanisms.transformer import add_positions, encoder, encoder_specs, position_specs
from headwork.models.model import Parameters
from headwork.training.runs import use_threads

SYMBOLS, QUESTION = 4, 4  # symbols 0 to 3; the question mark
CHANCE = 1 / SYMBOLS
TEST_SEQUENCES = 1000
PROBE_SEQUENCES = 16  # over which gradients are averaged
WIDTH, TAPS = 24, 5  # of the transformers; of the convolution
ENCODER = TransformerConfig(width=WIDTH, heads=HEADS, depth=2, normalisation="pre", activation="gelu")
RECURRENT_WEIGHTS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
SWEEP_STEPS, STATE_WIDTH = 64, 8
GAPS = {False: (2, 8, 24, 64), True: (2, 8, 32, 128, 256, 512)}
# The full number includes the position table for 514 tokens.
PARAMETERS = {False: 10_000, True: 24_000}
SOLVED_AT = 0.9


def plan(settings: Settings) -> list[Measurement]:
    trainings = [
        _training(settings, family, gap, seed)
        for gap in GAPS[settings.full]
        for seed in settings.seeds
        for family in settings.families
    ]
    config = {"weights": RECURRENT_WEIGHTS, "steps": SWEEP_STEPS, "states": STATE_WIDTH}
    return [*trainings, Measurement("long-range recurrent weight", config, sweep_recurrent_weight, 1)]


def _training(settings: Settings, family: str, gap: int, seed: int) -> Measurement:
    steps, parameters = settings.steps, PARAMETERS[settings.full]
    own_config = {"gap": gap, "wanted": parameters, "tested": TEST_SEQUENCES}
    config = experiment.run_config(family, seed, steps) | own_config
    run = partial(train_on_gap, family, gap, seed, steps=steps, parameters=parameters)
    return Measurement(measurement_name(family, gap, seed), config, run, steps * (0.004 + 0.00012 * gap))


def measurement_name(family: str, gap: int, seed: int) -> str:
    return f"long-range {family} gap {gap} seed {seed}"


class LastTokenClassifier(nn.Module):
    """Tokens (batch, token) in, logits from the vector of the last token out; ``size`` is the free size."""

    def __init__(self, family: Family, size: int, max_length: int) -> None:
        super().__init__()
        width = WIDTH if family.kind == "attention" else size
        self.embedding = Parameters(spec_tree(TableParameters, row=SYMBOLS + 1, width=width))
        self.positions: Parameters | None = None
        self.body_forward: Callable[..., Tensor]
        template: Any
        if family.kind == "attention":
            # The other families know the order of the tokens anyway.
            self.positions = Parameters(position_specs("learned", max_length, width))
            config = replace(ENCODER, hidden=size, attention=family.attention)
            template = encoder_specs(config)
            self.body_forward = lambda tree, vectors: encoder(tree, config, vectors, kernels=FUSED)
        elif family.kind == "convolution":
            template = token_convolution_specs(width, 2, TAPS)
            self.body_forward = partial(token_convolutions, kernels=FUSED)
        else:
            template = recurrent_layer_specs(width, width, family.cell, bidirectional=False)
            self.body_forward = partial(recurrent_layer, cell=family.cell, kernels=FUSED)
        self.body = Parameters(template)
        self.head = Parameters(classifier_head_specs(width, SYMBOLS))

    def embed(self, tokens: Tensor) -> Tensor:
        return FUSED.embed(self.embedding.table, tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits(self.embed(tokens))

    def logits(self, vectors: Tensor) -> Tensor:
        """Logits from embedded tokens, with respect to which gradients are taken."""
        if self.positions is not None:
            vectors = add_positions(vectors, self.positions.table)
        last = self.body_forward(self.body.tree(), vectors)[:, -1]
        logits: Tensor = FUSED.linear(last, self.head.matrix, self.head.bias)
        return logits


def sequence_model(family: Family, *, max_length: int, parameters: int) -> LastTokenClassifier:
    """A classifier of sequences with about so many parameters.

    >>> model = sequence_model(FAMILIES["gru"], max_length=66, parameters=10_000)
    >>> abs(parameter_count(model) - 10_000) < 500
    True
    """
    return build_with_parameters(lambda size: LastTokenClassifier(family, size, max_length), parameters)


def sequences(gap: int, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences (sequence, token), and the symbol with which each begins."""
    symbols = torch.randint(0, SYMBOLS, (count, gap + 1), generator=rng)
    return torch.cat([symbols, torch.full((count, 1), QUESTION)], 1), symbols[:, 0]


def train_on_gap(family: str, gap: int, seed: int, *, steps: int, parameters: int) -> dict[str, Any]:
    """Train to predict the first symbol; the test accuracy, and the gradient norms before and after."""
    keys = (seed, family, f"gap {gap}")
    model = experiment.build_seeded(
        lambda: sequence_model(FAMILIES[family], max_length=gap + 2, parameters=parameters), *keys
    )
    # The same sequences for every family. The names are part of the seed: the numbers depend on them.
    train_rng, test_rng = (experiment.generator_from(seed, name, gap) for name in ("shown", "asked"))

    batches = (sequences(gap, experiment.BATCH_SIZE, train_rng) for _ in range(steps))
    norms_before = gradient_norms(model, gap, seed)
    experiment.train(model, (((tokens,), first) for tokens, first in batches), *keys, steps=steps)
    test_batches = experiment.in_batches(*sequences(gap, TEST_SEQUENCES, test_rng))
    result = {"accuracy": experiment.evaluate(model, test_batches), "parameters": parameter_count(model)}
    return result | {"before": norms_before, "after": gradient_norms(model, gap, seed)}


def gradient_norms(model: LastTokenClassifier, gap: int, seed: int) -> list[float]:
    """The norm of the gradient of the logits at each position, root mean square over sequences."""
    tokens, _ = sequences(gap, PROBE_SEQUENCES, experiment.generator_from(seed, "probed", gap))
    # In float32 a vanishing gradient would soon be exactly zero, as if there were no path at all.
    model = copy.deepcopy(model).double()
    with use_threads(1):
        vectors = model.embed(tokens).detach().requires_grad_()
        logits = model.logits(vectors)
        squares = torch.zeros(gap + 2, dtype=torch.float64)
        for k in range(SYMBOLS):
            (gradient,) = torch.autograd.grad(logits[:, k].sum(), vectors, retain_graph=True)
            squares += gradient.square().sum(-1).mean(0)
    return [float(x) for x in squares.sqrt()]


def sweep_recurrent_weight(
    weights: Sequence[float] = RECURRENT_WEIGHTS, steps: int = SWEEP_STEPS
) -> dict[str, Any]:
    """The gradient of the last state with respect to the first input for W_h = w Q, linear and with tanh."""
    rng = experiment.generator_from("recurrent weight")
    rotation = torch.linalg.qr(torch.randn(STATE_WIDTH, STATE_WIDTH, generator=rng, dtype=torch.float64))[0]
    inputs = 0.1 * torch.randn(steps, STATE_WIDTH, generator=rng, dtype=torch.float64)
    activations: tuple[Literal["linear", "tanh"], ...] = ("linear", "tanh")
    norms = {
        activation: [_first_to_last_gradient(inputs, weight * rotation, activation) for weight in weights]
        for activation in activations
    }
    return {"weights": list(weights), "steps": steps, "norms": norms}


def _first_to_last_gradient(inputs: Tensor, W_h: Tensor, activation: Literal["linear", "tanh"]) -> float:
    def last_state(first_token: Tensor) -> Tensor:
        tokens = torch.cat([first_token[None], inputs[1:]])
        state: Tensor = recurrence(
            tokens, torch.eye(STATE_WIDTH, dtype=inputs.dtype), W_h, activation=activation
        )
        return state

    with use_threads(1):
        jacobian = torch.autograd.functional.jacobian(last_state, inputs[0])  # type: ignore[no-untyped-call]
    # Root mean square over the states: 1 for a rotation.
    return float(jacobian.norm() / math.sqrt(STATE_WIDTH))


def report(settings: Settings, results: Results) -> Section:
    names, seeds, gaps = settings.families, settings.seeds, GAPS[settings.full]
    counts = [results[measurement_name(name, gaps[0], seeds[0])]["parameters"] for name in names]
    training = settings.describe_training("sequences", counts)
    setting = {"training": training, "tested": TEST_SEQUENCES, "chance": CHANCE}
    section = Section(**text_of("long-range/section", **setting))
    accuracies = {}
    for gap in gaps:
        runs = settings.results_by_family(results, partial(measurement_name, gap=gap))
        accuracies[gap] = mean_accuracies(runs, TEST_SEQUENCES * len(seeds))
        section.add_cells(f"accuracy, gap {gap}", accuracies[gap], json_name=f"gap {gap}: right")
    section.numbers = {"accuracy": values_by_size(accuracies), "chance": CHANCE}
    section.verdict = budget_sentence(all_accuracies(accuracies), CHANCE, settings.steps)
    if not section.verdict:
        section.verdict = reach_sentence(accuracies)
        section.add_sentence(claim_sentence(accuracies))
        figure, _, margins = plot_by_size(accuracies, CHANCE, **text_of("long-range/accuracy/plot"))
        section.figures.append(FigureBlock(figure, **text_of("long-range/accuracy/figure", margins=margins)))
    norms = {name: results[measurement_name(name, gaps[-1], seeds[0])] for name in names}
    _add_gradients(section, norms, gaps[-1])
    _add_recurrent_weight(section, results["long-range recurrent weight"])
    return section


def reach_sentence(accuracies: BySize) -> str:
    """The gaps over which each family remembers the first symbol."""
    reaches = {}
    shortest, longest = min(accuracies), max(accuracies)
    for name in accuracies[shortest]:
        by_gap = family_by_size(accuracies, name)
        solved = max((gap for gap in by_gap if by_gap[gap].value >= SOLVED_AT), default=0)
        above = max((gap for gap in by_gap if by_gap[gap].is_above(Accuracy(CHANCE))), default=0)
        reach = f"{SOLVED_AT:.0%} or more up to gap {solved}" if solved else f"below {SOLVED_AT:.0%}"
        if above > solved:
            reach += f" and above chance up to gap {above}"
        elif not above:
            reach = "at chance at every gap"
        ends = f"{by_gap[shortest].value:.0%} at gap {shortest}, {by_gap[longest].value:.0%} at gap {longest}"
        reaches[name] = (reach, ends)
    return f"The accuracy on the first symbol is {clauses(reaches)}."


def claim_sentence(accuracies: BySize) -> str:
    """The usual claim, that attention reaches farther than recurrence, tested at the longest gap."""
    gap, at_gap = max(accuracies.items())
    recurrent = [name for name in at_gap if FAMILIES[name].kind == "recurrence"]
    if "transformer" not in at_gap or not recurrent:
        return ""
    at_gap = {name: at_gap[name] for name in ("transformer", *recurrent)}
    ahead = any(at_gap[name].is_above(at_gap["transformer"]) for name in recurrent)
    claim = text_of("long-range/claim/against") if ahead else ""
    return str(text_of("long-range/claim/sentence", gap=gap, leaders=leaders_sentence(at_gap), claim=claim))


def _add_gradients(section: Section, results: Mapping[str, Any], gap: int) -> None:
    """How the gradient decays with distance, at the longest gap and the first seed."""
    decays = {
        when: {name: decay_per_position(result[when]) for name, result in results.items()}
        for when in ("before", "after")
    }
    for when, state in (("before", "Untrained"), ("after", "Trained")):
        norms = {name: result[when] for name, result in results.items()}
        json_name = f"gradient kept a place, {state.lower()}"
        section.add_cells(
            f"gradient decay per position, {state.lower()}", decays[when], _format_decay, json_name
        )
        figure = _gradient_figure(norms, gap, state)
        caption = text_of("long-range/gradient/figure", when=state.lower())
        section.figures.append(FigureBlock(figure, **caption))
        section.add_sentence(decay_sentence(norms, gap, state))
    for name, result in results.items():
        if result["after"][0] == 0:
            reach = gap + 1 - next(i for i, norm in enumerate(result["after"]) if norm > 0)
            section.add_sentence(text_of("long-range/gradient/bounded", name=name, reach=reach))
    section.numbers["gradient kept a place"] = decays


def _format_decay(decay: float | None) -> str:
    return "does not reach the first token" if decay is None else f"x {decay:.3f}"


def _gradient_figure(norms: Mapping[str, Sequence[float]], gap: int, state: str) -> Any:
    figure, axes = new_panel(**text_of("long-range/gradient/plot", state=state, gap=gap), log="y")
    for index, (name, values) in enumerate(norms.items()):
        relative = np.array(values[-2::-1]) / values[-2]
        visible = relative > 1e-20
        distances = 1 + np.arange(len(relative))
        # Markers of different families stand at different positions.
        every = (index * gap // 40, max(1, gap // 8))
        draw_line(axes, name, (list(distances[visible]), list(relative[visible])), markevery=every)
    axes.set_ylim(1e-14, 1e2)
    add_legend(figure)
    return figure


def decay_per_position(norms: Sequence[float]) -> float | None:
    """The factor by which the gradient changes per position; None if it does not reach the first token.

    >>> round(decay_per_position([0.125, 0.25, 0.5, 7.0]), 6)
    0.5
    """
    values = np.array(norms[-2::-1])
    if values[-1] <= 0:
        return None
    return math.exp(np.polyfit(np.arange(len(values)), np.log(values), 1)[0])  # of the slope


def decay_sentence(norms: Mapping[str, Sequence[float]], gap: int, state: str) -> str:
    """The gradient at the first token relative to the token just before the last."""
    ratios = {name: values[0] / values[-2] for name, values in norms.items()}
    scale = text_of("long-range/gradient/scale")
    parts = clauses({name: (on_scale(ratio, scale), f"{ratio:.2g}") for name, ratio in ratios.items()})
    return f"{state}, over a gap of {gap} the gradient at the first token, relative to a near token, {parts}."


def recurrent_weight_figure(result: Any) -> Any:
    """The gradient against the recurrent weight: measured, and the power law of the linear case."""
    weights, steps, norms = result["weights"], result["steps"], result["norms"]
    figure, axes = new_panel(**text_of("long-range/weight/plot", steps=steps), log="y")
    power = [w ** (steps - 1) for w in weights]
    axes.plot(weights, power, color="#777777", linewidth=3, alpha=0.5, label=f"w^{steps - 1}")
    draw_line(axes, "lstm", (weights, norms["linear"]), "linear states, measured", linestyle="")
    draw_line(axes, "cnn", (weights, norms["tanh"]), "tanh, measured")
    add_legend(figure)
    return figure


def _add_recurrent_weight(section: Section, result: Any) -> None:
    weights, steps, norms = result["weights"], result["steps"], result["norms"]
    about = text_of("long-range/weight/figure", width=STATE_WIDTH)
    section.figures.append(FigureBlock(recurrent_weight_figure(result), **about))
    rows = [
        (f"{w:g}", f"{w ** (steps - 1):.3g}", f"{linear:.3g}", f"{tanh:.3g}")
        for w, linear, tanh in zip(weights, norms["linear"], norms["tanh"], strict=True)
    ]
    section.tables.append(table("long-range/weight/table", rows, steps=steps, power=steps - 1))
    low, one, high = (norms["linear"][weights.index(w)] for w in (weights[0], 1.0, weights[-1]))
    ends = {"low": low, "one": one, "high": high, "first": weights[0], "last": weights[-1]}
    sentence = text_of("long-range/weight/sentence", steps=steps, with_tanh=norms["tanh"][-1], **ends)
    bounded = text_of("long-range/weight/bounded") if norms["tanh"][-1] < high / 10 else ""
    section.add_sentence(f"{sentence}{bounded}.")
    section.numbers["recurrent weight"] = {"weights": weights, **norms}
