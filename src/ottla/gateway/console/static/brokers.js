import { html } from "./preact.js";
import { path, useApi } from "./api.js";
import { Action } from "./action.js";
import { bytes, number, rate } from "./format.js";
import { Asked, Command, Facts, link, Panel, State, Table, Title } from "./parts.js";
import { Settings } from "./topics.js";

const state = (row) => html`<${State} kind=${row.is_alive ? "good" : "bad"}>${row.is_alive ? "alive" : row.condition || "down"}<//>${row.is_controller ? html` <small class="muted">controller</small>` : ""}`;

const verbs = (row) => (row.condition === "paused" ? ["resume", "kill"] : row.is_alive || row.condition === "running" ? ["restart", "stop", "kill", "pause"] : ["start"]);
const label = (verb, row) => `${verb[0].toUpperCase()}${verb.slice(1)} broker ${row.id}`;

const buttons = (row, reload) => html`<span class="tools">${verbs(row).map((verb) => html`
  <${Action} key=${verb} label=${label(verb, row)} kind=${verb === "kill" ? "danger-quiet" : "quiet"} action="broker" verb=${label(verb, row)} body=${{ verb, broker: row.id }} onDone=${reload} />`)}</span>`;

const columns = (isLocal, reload) => [
  { label: "Broker", show: (row) => html`<a href=${link("brokers", row.id)}>${row.id}</a>` },
  { label: "State", show: state },
  { label: "Address", kind: "mono", show: (row) => row.address || "–" },
  { label: "Rack", show: (row) => row.rack || "–" },
  { label: "Leads", right: true, show: (row) => number(row.leaders) },
  { label: "Replicas", right: true, show: (row) => number(row.replicas) },
  { label: "Behind", right: true, show: (row) => (row.lagging ? html`<${State} kind="warn">${number(row.lagging)}<//>` : "0") },
  { label: "Holds", right: true, show: (row) => bytes(row.bytes) },
  { label: "Disk free", right: true, show: (row) => bytes(row.free_bytes) },
  { label: "CPU", right: true, show: (row) => ("cpu_percent" in row.load ? `${Math.round(row.load.cpu_percent)} %` : "–") },
  { label: "Memory", right: true, show: (row) => bytes(row.load.resident_bytes) },
  { label: "Written", right: true, show: (row) => rate(row.load.in_messages_per_second) },
  isLocal && { label: "", show: (row) => buttons(row, reload) },
].filter(Boolean);

export function Brokers() {
  const list = useApi("/brokers", 5_000);
  return html`<div class="page">
    <${Title} text="Brokers"><${Action} label="Spread replicas evenly" action="rebalance" verb="Move them" body=${{}} onDone=${list.reload} /><//>
    <${Asked} of=${list}>${(data) => html`
      <${Table} name="Brokers" rows=${data.brokers} keyOf=${(row) => row.id} columns=${columns(data.is_local, list.reload)} />
      <${Panel} name="Moves under way" tools=${data.moves.length > 0 && html`<${Action} label="Cancel all moves" kind="danger-quiet" action="cancel-moves" verb="Cancel them" body=${{}} onDone=${list.reload} />`}><${Table} name="Moves" rows=${data.moves} empty="No partition moves to another broker now." columns=${[
        { label: "Partition", show: (row) => html`<a href=${link("topics", row.topic)}>${row.topic}</a> ${row.partition}` },
        { label: "Replicas", show: (row) => row.replicas.join(", ") }, { label: "Coming", show: (row) => row.adding.join(", ") || "–" },
        { label: "Going", show: (row) => row.removing.join(", ") || "–" }]} /><//>
      ${data.quorum && html`<${Panel} name="Metadata quorum">
        <${Facts} items=${[["Leader", data.quorum.leader_id === null ? "none" : `node ${data.quorum.leader_id}`], ["Epoch", number(data.quorum.leader_epoch)], ["High watermark", number(data.quorum.high_watermark)],
          ["Voters", data.quorum.voters.map((each) => `${each.id} at ${number(each.log_end)}`).join(", ")]]} /><//>`}
      <${Command} line=${data.command} />`}<//></div>`;
}

export function Broker({ name }) {
  const asked = useApi(path("brokers", name));
  return html`<div class="page">
    <${Title} text=${`Broker ${name}`} under=${html`<a href="#/brokers">Brokers</a>`}><${Action} label="Drain this broker" action="drain" verb="Move them" body=${{ broker: Number(name) }} /><//>
    <${Asked} of=${asked}>${(data) => html`
      <${Facts} items=${Object.entries(data.load).map(([key, value]) => [key.replaceAll("_", " "), key.includes("bytes") ? bytes(value) : number(value)])} />
      <${Settings} configs=${data.configs} /><${Command} line=${data.command} />`}<//></div>`;
}
