import { html } from "./preact.js";
import { useApi } from "./api.js";
import { Chart } from "./charts.js";
import { count, number, rate } from "./format.js";
import { Asked, Command, Facts, link, Panel, State, Table, Title } from "./parts.js";

const kinds = { error: "bad", warning: "warn", note: "quiet" };

function Verdict({ health }) {
  const errors = health.findings.filter((each) => each.severity === "error").length;
  const warnings = health.findings.filter((each) => each.severity === "warning").length;
  const words = health.is_healthy && !health.is_complete ? "Well so far; clocks and transactions are being looked at." : health.is_healthy ? "All is well." : `${count(errors, "error")} and ${count(warnings, "warning")} need a hand.`;
  return html`<p class=${`verdict ${errors ? "bad" : warnings ? "warn" : "good"}`} role="status">${words}</p>`;
}

const Findings = ({ findings }) => html`
  <ul class="findings">${findings.map((each) => html`
    <li><${State} kind=${kinds[each.severity]}>${each.severity}<//>
      <div><p><strong>${each.place}</strong>: ${each.problem}.</p><p class="muted">${each.advice}</p></div></li>`)}</ul>`;

export function Home() {
  const health = useApi("/health", 6_000);
  const rates = useApi("/rates", 5_000);
  return html`<div class="page">
    <${Title} text="Home" under="Is the cluster well, and what needs a hand" />
    <${Asked} of=${health}>${(data) => html`
      <${Verdict} health=${data} />
      <${Facts} items=${[["Brokers", number(data.facts.brokers)], ["Topics", number(data.facts.topics)],
        ["Partitions", number(data.facts.partitions)], ["Cluster id", html`<code>${data.facts.cluster_id}</code>`]]} />
      ${data.findings.length > 0 && html`<${Panel} name="What needs a hand"><${Findings} findings=${data.findings} /><//>`}`}<//>
    <${Asked} of=${rates}>${(data) => html`
      <div class="pair">
        <${Panel} name="Records written"><${Chart} name="Records a second" times=${data.at_ms} values=${data.records_per_s} show=${rate} /><//>
        <${Panel} name="Lag of all groups"><${Chart} name="Records to read" times=${data.at_ms} values=${data.lag} show=${number} /><//>
      </div>
      ${data.busiest.length > 0 && html`<${Panel} name="Busiest topics"><${Table} name="Busiest topics" rows=${data.busiest} keyOf=${(row) => row.topic}
        columns=${[{ label: "Topic", show: (row) => html`<a href=${link("topics", row.topic)}>${row.topic}</a>` },
          { label: "Records a second", right: true, show: (row) => rate(row.records_per_s) }]} /><//>`}`}<//>
    <${Command} line=${health.data && health.data.command} /></div>`;
}
