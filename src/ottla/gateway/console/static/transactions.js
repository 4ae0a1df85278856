import { html, useState } from "./preact.js";
import { query, useApi } from "./api.js";
import { Action } from "./action.js";
import { count, duration, number } from "./format.js";
import { Asked, Command, link, Pager, Panel, SearchBox, State, Table, Title } from "./parts.js";

function Held() {
  const asked = useApi("/held-readers", 10_000);
  return html`<${Panel} name="Readers that wait"><${Asked} of=${asked}>${(data) => html`
    <${Table} name="Readers that wait" rows=${data.held} empty="Readers of committed records wait for no transaction." columns=${[
      { label: "Partition", show: (row) => html`<a href=${link("topics", row.topic)}>${row.topic}</a> ${row.partition}` },
      { label: "They stop at", right: true, show: (row) => number(row.stable_offset) }, { label: "Held back", right: true, show: (row) => count(row.records, "record") },
      { label: "By producer", right: true, show: (row) => row.producer_id }, { label: "Since offset", right: true, show: (row) => number(row.since_offset) },
      { label: "Silent for", right: true, show: (row) => duration(row.silent_ms) },
      { label: "Coordinator", show: (row) => (row.is_hanging ? html`<${State} kind="bad">knows nothing of it<//>` : "knows it") },
      { label: "", show: (row) => row.is_hanging && html`<${Action} label="Abort it" kind="danger-quiet" action="abort-hanging" verb="Write the marker" body=${{ topic: row.topic, partition: row.partition, producer_id: row.producer_id }} onDone=${asked.reload} />` }]} />
    <${Command} line=${data.command} />`}<//><//>`;
}

export function Transactions() {
  const [view, setView] = useState({ search: "", page: 1, open: true });
  const list = useApi(`/transactions${query({ ...view, open: String(view.open) })}`, 5_000);
  return html`<div class="page">
    <${Title} text="Transactions">
      <${SearchBox} label="Search transactional ids" value=${view.search} onSearch=${(search) => setView({ ...view, search, page: 1 })} />
      <label class="check"><input type="checkbox" checked=${!view.open} onChange=${(e) => setView({ ...view, open: !e.currentTarget.checked, page: 1 })} /> Finished ones, too</label>
    <//>
    <${Held} />
    <${Panel} name="Transactions"><${Asked} of=${list}>${(data) => html`
      <${Table} name="Transactions" rows=${data.transactions} keyOf=${(row) => row.transactional_id} empty=${view.open ? "No transaction is open." : "There are no transactional ids."} columns=${[
        { label: "Transactional id", kind: "mono", show: (row) => row.transactional_id },
        { label: "State", show: (row) => html`<${State} kind=${row.is_open ? "warn" : "quiet"}>${row.state}<//>` },
        { label: "Open for", right: true, show: (row) => duration(row.age_ms) }, { label: "Timeout", right: true, show: (row) => (row.timeout_ms === null ? "none (two-phase)" : duration(row.timeout_ms)) },
        { label: "Producer", right: true, show: (row) => row.producer_id }, { label: "Coordinator", right: true, show: (row) => `broker ${row.coordinator}` },
        { label: "Partitions", kind: "clip", show: (row) => row.partitions.join(", ") || "–" },
        { label: "", show: (row) => row.is_open && html`<${Action} label="Abort" kind="danger-quiet" action="abort-transaction" verb="Abort it" body=${{ transactional_id: row.transactional_id }} onDone=${list.reload} />` }]} />
      <${Pager} busy=${list.isLoading} facts=${data} noun="transactional ids" onPage=${(page) => setView({ ...view, page })} />
      <${Command} line=${data.command} />`}<//><//></div>`;
}
