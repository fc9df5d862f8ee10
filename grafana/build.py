"""The dashboard as code: `python grafana/build.py` writes `dashboard.json` beside it. People import the JSON; they need neither this nor its SDK.

The first row answers the four questions of whoever is on call, each with the number that the matching alert looks at and the alert's own bound as its
colour; below it rows with the evidence. Every window is Grafana's own (`$__rate_interval`, or `$__range` for sums over the shown time).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from grafana_foundation_sdk.builders import common as common_builder
from grafana_foundation_sdk.builders import dashboard as dashboard_builder
from grafana_foundation_sdk.builders import prometheus as prometheus_builder
from grafana_foundation_sdk.builders import stat as stat_builder
from grafana_foundation_sdk.builders import timeseries as timeseries_builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

FILE = Path(__file__).with_name("dashboard.json")
UID = "toolgraft"
WIDTH = 24
JOB = 'job=~"$job"'
MODEL = f'{JOB}, model=~"$model"'
SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

FAILED = "upstream_failed|malformed|missing_call|refused|empty"
WEAK = "refused|missing_call|empty"
BROKEN = "malformed|unterminated|oversize|bad_arguments"
NO_CALL_MEANT = "fenced_example|quoted|placeholder|in_reasoning"
SKIPS = "off|deadline|already_streamed"
NOT_OURS = "rejected|client_gone"
NO_ANSWER = "client_gone|upstream_failed"
DOWN = "http_5xx|connect|first_byte_timeout|idle_timeout|cut"


class Query(msgspec.Struct, frozen=True):
    """One query and its legend."""

    expr: str
    legend: str = ""


class Answer(msgspec.Struct, frozen=True):
    """One number of the first row. `red` is the bound of the alert of the same name."""

    title: str
    description: str
    expr: str
    red: float
    unit: str = "percentunit"
    width: int = 6


class Graph(msgspec.Struct, frozen=True):
    """One curve panel."""

    title: str
    description: str
    queries: tuple[Query, ...]
    unit: str = "short"
    stacked: bool = False
    width: int = 8
    exemplars: bool = False


def among(label: str, words: str, where: str = JOB) -> str:
    """Selectors for one of these label values."""
    return f'{where}, {label}=~"{words}"'


def without(label: str, words: str, where: str = JOB) -> str:
    """Selectors for none of these label values."""
    return f'{where}, {label}!~"{words}"'


def rate(metric: str, by: str = "", where: str = JOB) -> str:
    """A counter's rate, added up over workers."""
    return f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))" if by else f"sum(rate({metric}{{{where}}}[$__rate_interval]))"


def total(metric: str, where: str = JOB) -> str:
    """A counter's increase over the shown time."""
    return f"sum(increase({metric}{{{where}}}[$__range]))"


def share(part: str, whole: str) -> str:
    """A ratio that says nothing, instead of NaN, where there was nothing."""
    return f"{part} / ({whole} > 0)"


def quantile(number: float, histogram: str, by: str = "", where: str = JOB) -> str:
    """A quantile over all workers."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({number}, sum by ({labels}) (rate({histogram}_bucket{{{where}}}[$__rate_interval])))"


def quantiles(histogram: str, legend: str, where: str = JOB) -> tuple[Query, ...]:
    """p50 and p99."""
    return tuple(Query(quantile(number, histogram, where=where), f"{legend} p{number * 100:.0f}") for number in (0.5, 0.99))


BALANCE = f"sum(toolgraft_turns_started_total{{{JOB}}}) - sum(toolgraft_turns_total{{{JOB}}}) - sum(toolgraft_requests_in_flight{{{JOB}}})"
# A scrape may catch a turn at its end; what is lost is there at every scrape.
LOST = f"min_over_time(abs({BALANCE})[$__rate_interval:])"
SKIPPED = total("toolgraft_retry_skips_total", among("why", SKIPS))
FIRST_ROW = (
    Answer(
        "Prompt too weak",
        "Share of first attempts that ended without a block though a call was wanted: the model refused, talked, or said nothing. "
        "Retries may hide it from clients. Next: 'Why not', and `toolgraft explain --fault prompt_too_weak`.",
        share(
            total("toolgraft_first_attempt_verdicts_total", among("verdict", WEAK, MODEL)),
            total("toolgraft_first_attempt_verdicts_total", without("verdict", NO_ANSWER, MODEL)),
        ),
        0.3,
    ),
    Answer(
        "Parser failure",
        "Share of blocks that were begun and did not become calls. Red with 'Markers in delivered text' above zero and blocks that look well: "
        "the parser. Next: `toolgraft explain --fault parser_failure`, then `toolgraft parse --pretty`.",
        share(
            total("toolgraft_blocks_total", among("result", BROKEN)),
            total("toolgraft_blocks_total", without("result", NO_CALL_MEANT)),
        ),
        0.1,
    ),
    Answer(
        "Retry not triggered",
        "Share of due retries that did not happen. 'Retries that did not happen' says why. Attempts used up (`budget`) do not count here.",
        share(SKIPPED, f"({SKIPPED} + {total('toolgraft_retries_total')})"),
        0.5,
    ),
    Answer(
        "State machine broken",
        "Broken promises, failed stages, exceptions that nobody expected, and turns that are neither concluded nor in flight. Anything above zero is a bug, of Toolgraft or of a "
        "stage of your own. Next: 'Integrity', and `toolgraft explain --fault state_machine_broken`.",
        f"{total('toolgraft_invariant_violations_total')} + {total('toolgraft_stage_errors_total')} + {total('toolgraft_unexpected_total')} + {LOST}",
        1,
        "short",
    ),
    Answer(
        "Turns that fail",
        "Share of turns whose client got an error, a refusal, no call or an unreadable one.",
        share(
            total("toolgraft_turns_total", among("verdict", FAILED, MODEL)),
            total("toolgraft_turns_total", without("verdict", NOT_OURS, MODEL)),
        ),
        0.144,
    ),
    Answer(
        "Upstream's fault",
        "Share of requests to upstreams that could not be made, were answered with 5xx, came too late or broke off.",
        share(
            total("toolgraft_upstream_requests_total", among("outcome", DOWN)),
            total("toolgraft_upstream_requests_total", without("outcome", "cancelled")),
        ),
        0.5,
    ),
    Answer(
        "Our slowness",
        "p99 of the time turns spent in this process, without waiting for upstream and client, and without 1 ms for each piece of the upstream's "
        "answer: a long healthy stream adds up to much and holds up nobody.",
        f"histogram_quantile(0.99, sum by (le) (increase(toolgraft_overhead_excess_seconds_bucket{{{JOB}}}[$__range])))",
        0.05,
        "s",
    ),
    Answer(
        "Clients gone",
        "Share of turns whose client left before the answer was complete. Many at one age are a timeout of theirs.",
        share(total("toolgraft_disconnects_total"), total("toolgraft_turns_total")),
        0.2,
    ),
)

ROWS: tuple[tuple[str, tuple[Graph, ...]], ...] = (
    (
        "Are turns succeeding",
        (
            Graph(
                "Turns by verdict",
                "Each turn has exactly one.",
                (Query(rate("toolgraft_turns_total", "verdict", MODEL), "{{verdict}}"),),
                "reqps",
                True,
                12,
            ),
            Graph(
                "Turns that succeed",
                "By model: the share of turns, without those that clients broke off or that were turned away, that did not fail.",
                (
                    Query(
                        "1 - "
                        + share(
                            rate("toolgraft_turns_total", "model", among("verdict", FAILED, MODEL)),
                            rate("toolgraft_turns_total", "model", without("verdict", NOT_OURS, MODEL)),
                        ),
                        "{{model}}",
                    ),
                ),
                "percentunit",
            ),
            Graph(
                "Requests by status",
                "Everything answered, by protocol and status.",
                (Query(rate("toolgraft_requests_total", "api, code"), "{{api}} {{code}}"),),
                "reqps",
            ),
            Graph(
                "Turns by model",
                "Started turns that were concluded.",
                (Query(rate("toolgraft_turns_total", "model", MODEL), "{{model}}"),),
                "reqps",
            ),
            Graph(
                "Emulated or not, and why",
                "Why a turn is emulated, or why it is not.",
                (Query(rate("toolgraft_emulation_total", "reason"), "{{reason}}"),),
                "reqps",
                True,
            ),
            Graph(
                "Calls delivered",
                "Parsed from text, or native.",
                (Query(rate("toolgraft_calls_total", "model, origin", MODEL), "{{model}} {{origin}}"),),
                "cps",
            ),
        ),
    ),
    (
        "Why not",
        (
            Graph(
                "First attempts by verdict",
                "What models do before any retry: the measure of the prompt.",
                (Query(rate("toolgraft_first_attempt_verdicts_total", "verdict", MODEL), "{{verdict}}"),),
                "reqps",
                True,
            ),
            Graph(
                "Refusals",
                "Recognised refusals by kind and language, and whether they were asked again or delivered.",
                (Query(rate("toolgraft_refusals_total", "kind, lang, action"), "{{kind}} {{lang}} {{action}}"),),
                "reqps",
            ),
            Graph(
                "Blocks",
                "Blocks by what became of them.",
                (Query(rate("toolgraft_blocks_total", "dialect, result"), "{{dialect}} {{result}}"),),
                "cps",
                True,
            ),
            Graph(
                "Repairs",
                "Repairs of blocks. One kind that climbs is a model that drifts from the format.",
                (Query(rate("toolgraft_repairs_total", "dialect, kind"), "{{dialect}} {{kind}}"),),
                "cps",
            ),
            Graph(
                "Retries by what they brought",
                "A high share of recovered ones confirms that a stronger message helps.",
                (Query(rate("toolgraft_retries_total", "cause, result"), "{{cause}} {{result}}"),),
                "reqps",
                True,
            ),
            Graph(
                "Retries that did not happen",
                "Due retries by why they did not happen.",
                (Query(rate("toolgraft_retry_skips_total", "why"), "{{why}}"),),
                "reqps",
                True,
            ),
            Graph(
                "Attempts by cause",
                "Every request upstream has a cause.",
                (Query(rate("toolgraft_attempts_total", "cause", MODEL), "{{cause}}"),),
                "reqps",
                True,
            ),
            Graph(
                "Attempts by verdict",
                "Discarded attempts included.",
                (Query(rate("toolgraft_attempt_verdicts_total", "verdict", MODEL), "{{verdict}}"),),
                "reqps",
                True,
            ),
            Graph(
                "Repairs of the history",
                "Broken calls and orphan results that clients send.",
                (Query(rate("toolgraft_history_repairs_total", "kind"), "{{kind}}"),),
                "cps",
            ),
        ),
    ),
    (
        "Latency",
        (
            Graph(
                "First byte",
                "Ours to the client, and the upstream's to us.",
                (*quantiles("toolgraft_first_byte_seconds", "ours"), *quantiles("toolgraft_upstream_first_byte_seconds", "upstream")),
                "s",
            ),
            Graph(
                "Overhead",
                "Time in this process, in sum, and what of it the length of the answer does not explain (excess).",
                (*quantiles("toolgraft_overhead_seconds", "overhead"), *quantiles("toolgraft_overhead_excess_seconds", "excess")),
                "s",
                exemplars=True,
            ),
            Graph(
                "Held",
                "How long text was withheld before it was released or became a call.",
                quantiles("toolgraft_held_seconds", "held"),
                "s",
                exemplars=True,
            ),
            Graph("Whole turn", "From the request to the last byte.", quantiles("toolgraft_request_seconds", "turn"), "s"),
            Graph(
                "First content",
                "By model, p50, after OpenTelemetry's convention.",
                (Query(quantile(0.5, "gen_ai_server_time_to_first_token_seconds", "gen_ai_request_model"), "{{gen_ai_request_model}}"),),
                "s",
            ),
            Graph(
                "Duration",
                "By model, p50, after OpenTelemetry's convention.",
                (Query(quantile(0.5, "gen_ai_server_request_duration_seconds", "gen_ai_request_model"), "{{gen_ai_request_model}}"),),
                "s",
            ),
            Graph(
                "Stages",
                "p99 of each stage's request side.",
                (Query(quantile(0.99, "toolgraft_stage_seconds", "stage"), "{{stage}}"),),
                "s",
            ),
        ),
    ),
    (
        "Upstream",
        (
            Graph(
                "Upstream requests",
                "By how they ended.",
                (Query(rate("toolgraft_upstream_requests_total", "upstream, outcome"), "{{upstream}} {{outcome}}"),),
                "reqps",
                True,
            ),
            Graph(
                "Upstream first byte",
                "p99 by upstream.",
                (Query(quantile(0.99, "toolgraft_upstream_first_byte_seconds", "upstream"), "{{upstream}}"),),
                "s",
            ),
            Graph(
                "Attempts per turn",
                "What retries, failover and re-asks cost.",
                (
                    Query(
                        share(rate("toolgraft_attempts_total", "model", MODEL), rate("toolgraft_turns_total", "model", MODEL)), "{{model}}"
                    ),
                ),
                "short",
            ),
            Graph(
                "Tokens",
                "Of winning attempts, as the upstream counted them.",
                (Query(rate("toolgraft_tokens_total", "model, type", MODEL), "{{model}} {{type}}"),),
                "short",
            ),
            Graph(
                "Tokens per turn",
                "Mean, after OpenTelemetry's convention.",
                (
                    Query(
                        share(
                            rate("gen_ai_client_token_usage_sum", "gen_ai_token_type"),
                            rate("gen_ai_client_token_usage_count", "gen_ai_token_type"),
                        ),
                        "{{gen_ai_token_type}}",
                    ),
                ),
                "short",
            ),
            Graph(
                "Contract",
                "Mean size of what is put into the prompt.",
                (
                    Query(
                        share(rate("toolgraft_contract_bytes_sum", "model", MODEL), rate("toolgraft_contract_bytes_count", "model", MODEL)),
                        "{{model}}",
                    ),
                ),
                "bytes",
            ),
        ),
    ),
    (
        "Integrity",
        (
            Graph(
                "Broken promises",
                "By invariant. Must be zero.",
                (Query(rate("toolgraft_invariant_violations_total", "invariant"), "{{invariant}}"),),
                "cps",
            ),
            Graph(
                "Conservation",
                "Started turns less concluded ones less those in flight, and attempts less their verdicts. The first is zero but for a scrape that caught "
                "a turn at its end; the second is between zero and the turns in flight.",
                (
                    Query(
                        BALANCE,
                        "turns lost",
                    ),
                    Query(f"sum(toolgraft_attempts_total{{{JOB}}}) - sum(toolgraft_attempt_verdicts_total{{{JOB}}})", "attempts open"),
                ),
            ),
            Graph(
                "Failed stages",
                "Open: turns went on without the stage. Closed: clients got an error. Beside them, exceptions of this program outside of stages.",
                (
                    Query(rate("toolgraft_stage_errors_total", "stage, mode"), "{{stage}} {{mode}}"),
                    Query(rate("toolgraft_unexpected_total"), "unexpected"),
                ),
                "cps",
            ),
            Graph(
                "Markers in delivered text",
                "An independent look at what clients got: dialect markers outside code.",
                (Query(rate("toolgraft_marker_text_total", "dialect"), "{{dialect}}"),),
                "cps",
            ),
            Graph(
                "Events",
                "What stages said: one count for every possible log line.",
                (Query(rate("toolgraft_events_total", "event"), "{{event}}"),),
                "cps",
            ),
            Graph(
                "Telemetry's own faults",
                "Notes that could not be booked, and log lines that nobody read in time.",
                (
                    Query(rate("toolgraft_telemetry_errors_total"), "notes not booked"),
                    Query(rate("toolgraft_log_lines_dropped_total"), "log lines dropped"),
                ),
                "cps",
            ),
        ),
    ),
    (
        "Process",
        (
            Graph(
                "Turns in flight",
                "By worker, against the limit.",
                (
                    Query(f"sum by (instance) (toolgraft_requests_in_flight{{{JOB}}})", "{{instance}}"),
                    Query(f"max(toolgraft_admission_limit{{{JOB}}})", "limit of a worker"),
                ),
            ),
            Graph(
                "Turned away and gone",
                "Requests that were not let in, keys that were not valid, clients that left.",
                (
                    Query(rate("toolgraft_admission_rejects_total", "why"), "{{why}}"),
                    Query(rate("toolgraft_auth_failures_total"), "no valid key"),
                    Query(rate("toolgraft_disconnects_total", "phase"), "left {{phase}}"),
                ),
                "reqps",
            ),
            Graph(
                "Event loop lag",
                "p99 by worker: how late a 100 ms ticker runs.",
                (Query(quantile(0.99, "toolgraft_loop_lag_seconds", "instance"), "{{instance}}"),),
                "s",
            ),
            Graph(
                "CPU",
                "Cores used by each worker. One is all that a worker has.",
                (Query(f"sum by (instance) (rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval]))", "{{instance}}"),),
                "short",
            ),
            Graph(
                "Memory",
                "Resident memory of each worker.",
                (Query(f"sum by (instance) (process_resident_memory_bytes{{{JOB}}})", "{{instance}}"),),
                "bytes",
            ),
            Graph(
                "File descriptors", "Open ones of each worker.", (Query(f"sum by (instance) (process_open_fds{{{JOB}}})", "{{instance}}"),)
            ),
            Graph(
                "Workers",
                "Targets that answer, and those that drain.",
                (Query(f"sum(up{{{JOB}}})", "up"), Query(f"sum(toolgraft_draining{{{JOB}}})", "draining")),
                "short",
            ),
            Graph(
                "Versions",
                "What runs where.",
                (
                    Query(
                        f"sum by (version, python, aiohttp) (toolgraft_build_info{{{JOB}}})",
                        "{{version}}, Python {{python}}, aiohttp {{aiohttp}}",
                    ),
                ),
            ),
            Graph("Reloads", "Of the configuration.", (Query(rate("toolgraft_config_reloads_total", "result"), "{{result}}"),), "cps"),
        ),
    ),
)

_HEIGHT = 8
_ANSWER_HEIGHT = 5


def build() -> dashboard.Dashboard:
    """The dashboard."""
    builder = (
        dashboard_builder.Dashboard("Toolgraft")
        .uid(UID)
        .description("Tool calling for models without it: which fault is it, and where.")
        .tags(["toolgraft"])
        .timezone("browser")
        .time("now-30m", "now")
        .refresh("30s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(dashboard_builder.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_label_variable("job", "Job", "label_values(toolgraft_build_info, job)"))
        .with_variable(_label_variable("model", "Model", f"label_values(toolgraft_turns_total{{{JOB}}}, model)"))
    )
    numbers = iter(range(1, 1000))
    top = 0
    builder.with_row(_row("Which fault is it", next(numbers), top))
    top = _place([(answer, answer.width) for answer in FIRST_ROW], _ANSWER_HEIGHT, top + 1, builder, numbers)
    for title, graphs in ROWS:
        builder.with_row(_row(title, next(numbers), top))
        top = _place([(graph, graph.width) for graph in graphs], _HEIGHT, top + 1, builder, numbers)
    return builder.build()


def _place(
    items: Sequence[tuple[Answer | Graph, int]], height: int, top: int, builder: dashboard_builder.Dashboard, numbers: object
) -> int:
    """Lay panels from left to right and down. Returns the first line below them."""
    left = 0
    for item, width in items:
        if left + width > WIDTH:
            left, top = 0, top + height
        position = dashboard.GridPos(h=height, w=width, x=left, y=top)
        panel = _stat(item) if isinstance(item, Answer) else _timeseries(item)
        builder.with_panel(panel.id(next(numbers)).grid_pos(position))  # type: ignore[call-overload]
        left += width
    return top + height


def _row(title: str, number: int, top: int) -> dashboard_builder.Row:
    return dashboard_builder.Row(title).id(number).grid_pos(dashboard.GridPos(h=1, w=WIDTH, x=0, y=top))


def _label_variable(name: str, label: str, query: str) -> dashboard_builder.QueryVariable:
    return (
        dashboard_builder.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".+")
        .current(dashboard.VariableOption(selected=True, text="All", value="$__all"))
    )


def _stat(answer: Answer) -> stat_builder.Panel:
    steps = [dashboard.Threshold(color="green", value=None), dashboard.Threshold(color="red", value=answer.red)]
    return (
        stat_builder.Panel()
        .title(answer.title)
        .description(answer.description)
        .datasource(SOURCE)
        .unit(answer.unit)
        .no_value("nothing yet")
        .min(0)
        .thresholds(dashboard_builder.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
        .color_mode(common.BigValueColorMode.BACKGROUND)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(common_builder.ReduceDataOptions().calcs(["lastNotNull"]).values(values=False))
        .with_target(_target(Query(answer.expr), "A", instant=True))
    )


def _timeseries(graph: Graph) -> timeseries_builder.Panel:
    panel = (
        timeseries_builder.Panel()
        .title(graph.title)
        .description(graph.description)
        .datasource(SOURCE)
        .unit(graph.unit)
        .min(0 if graph.title != "Conservation" else None)  # type: ignore[arg-type]
        .line_width(1)
        .fill_opacity(25 if graph.stacked else 8)
        .show_points(common.VisibilityMode.NEVER)
        .stacking(common_builder.StackingConfig().mode(common.StackingMode.NORMAL if graph.stacked else common.StackingMode.NONE))
        .legend(
            common_builder.VizLegendOptions()
            .show_legend(show_legend=True)
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .calcs([])
        )
        .tooltip(common_builder.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
    )
    for at, query in enumerate(graph.queries):
        panel.with_target(_target(query, chr(ord("A") + at), exemplar=graph.exemplars))
    return panel


def _target(query: Query, ref: str, *, instant: bool = False, exemplar: bool = False) -> prometheus_builder.Dataquery:
    target = prometheus_builder.Dataquery().ref_id(ref).datasource(SOURCE).expr(query.expr).legend_format(query.legend or "__auto")
    target = target.format(PromQueryFormat.TIME_SERIES)
    if instant:
        return target.instant()
    return target.range().exemplar(exemplar)


def render() -> str:
    """The JSON text, the same on every run."""
    return JSONEncoder(sort_keys=True, indent=2).encode(build()) + "\n"


if __name__ == "__main__":
    FILE.write_text(render(), "utf-8")
    print(f"wrote {FILE.name}")
