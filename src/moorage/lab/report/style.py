"""How a report looks, in light and in dark."""

from typing import Final

STYLE: Final = """
:root{--ink:#16212b;--quiet:#5c6b78;--page:#f5f7f9;--paper:#fff;--edge:#dfe5ea;--grid:#e6ebef;--good:#0b7a4b;
--bad:#b3362b;
--good-bg:#e5f5ec;--bad-bg:#fbeae8;--c0:#00796b;--c1:#d97706;--c2:#3b6fd4;--c3:#b0347f;--c4:#6b8e23;--c5:#7c4dbd;
--c6:#0891b2;--c7:#8d5a3b}
@media(prefers-color-scheme:dark){:root{--ink:#e7ecf0;--quiet:#94a3b0;--page:#101519;--paper:#182026;--edge:#2a353d;
--grid:#27323a;
--good:#5fd39b;--bad:#ff8a7d;--good-bg:#12301f;--bad-bg:#3a1b18;--c0:#3fc1b0;--c1:#f4a944;--c2:#7ba4f7;--c3:#ee7fbe;
--c4:#a8cc5b;--c5:#b795f0;
--c6:#4fc6e0;--c7:#cf9a78}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,sans-serif}
main{max-width:1160px;margin:0 auto;padding:2rem 1.25rem 4rem}header{border-bottom:3px solid var(--c0);
padding-bottom:1rem;margin-bottom:1.2rem}
.kicker{margin:0;color:var(--c0);font-weight:600;letter-spacing:.06em;text-transform:uppercase;font-size:.75rem}
h1{margin:.2rem 0 .6rem;font-size:2rem;line-height:1.15}h2{margin:2.4rem 0 .7rem;font-size:1.2rem}
h2.scene{font-size:1.5rem}h3{margin:0 0 .5rem;font-size:1rem}
.facts,.legend{display:flex;flex-wrap:wrap;gap:.4rem 1.4rem;list-style:none;margin:0;padding:0}
.facts b{font-size:1.15rem}
.legend{position:sticky;top:0;background:var(--page);padding:.6rem 0;z-index:1;font-weight:600}
.quiet,small{color:var(--quiet)}small{display:block;font-weight:400;font-size:.75rem}p.quiet{margin:.2rem 0 .6rem;
font-size:.85rem}
.swatch{display:inline-block;width:.75em;height:.75em;border-radius:3px;margin-right:.45em;background:currentColor}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(300px,1fr));gap:1rem}
.card,figure,.scroll,details,.failed{background:var(--paper);border:1px solid var(--edge);border-radius:10px;
padding:1rem 1.1rem;margin:0}
.card ul{list-style:none;margin:0;padding:0}.card li{padding:.2rem 0 .2rem 1.4rem;position:relative}
.card li.good:before,.card li.bad:before{position:absolute;left:0}
.card li.good:before{content:"▲";color:var(--good)}.card li.bad:before{content:"▼";color:var(--bad)}
.short{background:var(--paper);border:1px solid var(--edge);border-left:4px solid var(--c0);border-radius:10px;
padding:1rem 1.3rem;margin:0 0 1rem;font-size:1.05rem}.short h2{margin:0 0 .4rem}.short h3{margin:.7rem 0 .1rem}
.short ul{margin:0;padding-left:1.1rem}
.scroll{overflow-x:auto;padding:.3rem .4rem}table{border-collapse:collapse;width:100%;
font-variant-numeric:tabular-nums}
td,th{padding:.5rem .7rem;text-align:right;vertical-align:top;border-bottom:1px solid var(--grid)}
td:first-child,th:first-child{text-align:left}
tbody tr:last-child>*{border-bottom:0}tbody th{font-weight:500}td.good{background:var(--good-bg)}
td.bad{background:var(--bad-bg)}
td.good b{color:var(--good)}td.bad b{color:var(--bad)}table.pods td,table.pods th{text-align:left;
padding:.25rem .6rem;font-size:.85rem}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(420px,100%),1fr));gap:1rem}
.figures.wide{grid-template-columns:minmax(0,720px)}
@media(max-width:520px){.figures{grid-template-columns:1fr}}
figcaption{font-weight:600}figure svg{display:block;width:100%;height:auto;margin-top:.3rem}details{margin:.6rem 0}
summary{cursor:pointer}details .scroll{border:0}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .tick{font-size:11px;fill:var(--quiet)}
svg .value{font-weight:600}svg .name[class*=' c']{fill:currentColor;font-weight:600;
paint-order:stroke;stroke:var(--paper);stroke-width:4px}
svg .grid{stroke:var(--grid);fill:none}svg .line{fill:none;stroke:currentColor;stroke-width:2.2;stroke-linejoin:round}
svg .band{fill:currentColor;opacity:.13}
svg .whisker{stroke:currentColor;stroke-width:5;stroke-linecap:round;opacity:.4;fill:none}svg .thin{stroke-width:2}
svg .dot,svg .bar{fill:currentColor}svg .beaten{fill:var(--paper);stroke:currentColor;stroke-width:2}
svg .front{fill:none;stroke:var(--quiet);stroke-dasharray:5 4}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}
.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
footer{margin-top:2.5rem;border-top:1px solid var(--edge)}.failed{border-color:var(--bad);margin-top:2rem}
.failed h2{margin-top:0}
@media print{body{background:#fff}.legend{position:static}figure,.card{break-inside:avoid}}
"""
