"""The report as one HTML page that needs nothing else."""

from __future__ import annotations

from html import escape

from tegula.conformance.report import Report

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
  color: #1b1f24; background: #fff; }
h1 { font-size: 1.4rem; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #e1e4e8;
  vertical-align: top; }
td.message { font-family: ui-monospace, monospace; font-size: 12px; word-break: break-word; }
.pass { color: #116329; } .unsupported { color: #6e7781; } .xfail, .xpass { color: #9a6700; }
.fail, .error, .crash, .timeout { color: #b3123c; font-weight: 600; }
.chips button { margin: 0 .3rem .3rem 0; padding: .2rem .7rem; border: 1px solid #d0d7de;
  border-radius: 1rem; background: #f6f8fa; cursor: pointer; }
.chips button[aria-pressed=true] { background: #ddf4ff; border-color: #54aeff; }
input { padding: .3rem .6rem; width: 20rem; } dl { display: grid;
  grid-template-columns: max-content auto; gap: .1rem 1rem; } dt { color: #57606a; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; }
  th, td { border-color: #30363d; } .pass { color: #56d364; } .unsupported { color: #8b949e; }
  .fail, .error, .crash, .timeout { color: #ff7b72; } .chips button { background: #161b22;
  color: inherit; border-color: #30363d; } .chips button[aria-pressed=true] {
  background: #1f6feb33; } dt { color: #8b949e; } }
"""

SCRIPT = """
const rows = [...document.querySelectorAll('tbody tr')];
const find = document.querySelector('input');
let shown = '';
function update() {
  const words = find.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const row of rows) {
    const fits = (!shown || row.dataset.outcome === shown)
      && words.every(w => row.textContent.toLowerCase().includes(w));
    row.hidden = !fits;
  }
}
find.addEventListener('input', update);
for (const button of document.querySelectorAll('.chips button'))
  button.addEventListener('click', () => {
    shown = shown === button.value ? '' : button.value;
    for (const b of document.querySelectorAll('.chips button'))
      b.setAttribute('aria-pressed', b.value === shown);
    update();
  });
"""


def render(report: Report) -> str:
    """The whole page."""
    backend, device = report["backend"], report["device"]
    facts = {
        "claim": report["claim"],
        "conformant": "yes" if report["conformant"] else _why_not(report),
        "backend": f"{backend['dist']} {backend['version']} ({backend['fingerprint']})",
        "device": f"{device['name']} ({device['target']['arch']})",
        "core": f"tegula {report['tegula']}, Python {report['python']}, {report['system']}",
        "run": f"{report['mode']}, seed {report['seed']}, {report['seconds']} s",
        "capabilities": report["capabilities"]["sha256"][:16],
        "checksum": report["sha256"],
    }
    listed = "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in facts.items())
    chips = "".join(
        f'<button value="{escape(outcome)}" aria-pressed="false">'
        f'<span class="{escape(outcome)}">{escape(outcome)}</span> {count}</button>'
        for outcome, count in report["counts"].items()
        if count
    )
    rows = "".join(_row(row) for row in report["tests"])
    title = f"Conformance of {escape(backend['name'])}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{title}</h1><dl>{listed}</dl>"
        f'<p class="chips">{chips}</p>'
        '<p><label>Find <input placeholder="words of an id or message"></label></p>'
        "<table><thead><tr><th>test</th><th>level</th><th>profiles</th><th>outcome</th>"
        "<th>ms</th><th>ulp</th><th>message</th></tr></thead>"
        f"<tbody>{rows}</tbody></table><script>{SCRIPT}</script></body></html>"
    )


def _why_not(report: Report) -> str:
    if report["mode"] != "full":
        return "no: only a full run can be (--full)"
    if not report["complete"] or report["shard"] != [1, 1]:
        return "no: not all tests were run"
    return "no"


def _row(row: Report) -> str:
    outcome = escape(row["outcome"])
    ulp = "" if not row["max_ulp"] else f"{row['max_ulp']:.3g}"
    return (
        f'<tr data-outcome="{outcome}"><td>{escape(row["id"])}</td><td>L{row["level"]}</td>'
        f"<td>{escape(' '.join(row['profiles']))}</td>"
        f'<td class="{outcome}">{outcome}</td><td>{row["ms"]:.1f}</td><td>{ulp}</td>'
        f'<td class="message">{escape(row["message"])}</td></tr>'
    )
