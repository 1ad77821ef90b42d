"""The style of self-contained HTML pages, without fonts and scripts."""

from typing import Final

STYLE: Final = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:1.6rem}
li{margin:.3rem 0}code,pre{font:13px/1.4 ui-monospace,monospace;background:#f3f4f6;border-radius:4px}
pre{padding:.6rem;overflow:auto}table{border-collapse:collapse}td,th{padding:.15rem .6rem;text-align:right}
td:first-child,th:first-child{text-align:left}.bar{display:inline-block;height:.8em;background:#2f7d4f}
.minus{background:#b3413a}.quiet{color:#6b7280}
@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#14171a}code,pre{background:#22272e}}
"""
