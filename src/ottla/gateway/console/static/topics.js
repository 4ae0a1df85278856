import { html, useState } from "./preact.js";
import { path, query, useApi } from "./api.js";
import { Action } from "./action.js";
import { ago, bytes, count, number, rate } from "./format.js";
import { Asked, Command, Facts, Field, link, Pager, Panel, SearchBox, State, Table, Tabs, Title } from "./parts.js";
import { Records } from "./records.js";

const health = (row) => row.leaderless ? html`<${State} kind="bad">${number(row.leaderless)} without a leader<//>`
  : row.under_replicated ? html`<${State} kind="warn">${number(row.under_replicated)} not in sync<//>` : html`<${State} kind="good">in sync<//>`;

const createForm = (given, change) => html`
  <${Field} label="Name"><input required value=${given.topic} onInput=${(e) => change({ topic: e.currentTarget.value })} /><//>
  <div class="row">
    <${Field} label="Partitions" note="Empty: the cluster's default"><input type="number" min="1" onInput=${(e) => change({ partitions: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) })} /><//>
    <${Field} label="Replicas" note="Empty: the cluster's default"><input type="number" min="1" onInput=${(e) => change({ replication_factor: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) })} /><//>
  </div>`;

export function Topics() {
  const [view, setView] = useState({ search: "", page: 1, internal: false, troubled: false });
  const list = useApi(`/topics${query(view)}`, 15_000);
  const names = list.data ? list.data.topics.map((each) => each.name).join(",") : "";
  const figures = useApi(names ? `/topic-figures${query({ names })}` : null, 15_000);
  const of = (row) => (figures.data && figures.data.figures[row.name]) || {};
  const flag = (name, label) => html`<label class="check"><input type="checkbox" checked=${view[name]} onChange=${(e) => setView({ ...view, [name]: e.currentTarget.checked, page: 1 })} /> ${label}</label>`;
  return html`<div class="page">
    <${Title} text="Topics">
      <${SearchBox} label="Search topics" value=${view.search} onSearch=${(search) => setView({ ...view, search, page: 1 })} />
      ${flag("troubled", "Only those with trouble")}${flag("internal", "The cluster's own, too")}
      <${Action} label="New topic" kind="main" action="create-topic" verb="Create the topic" body=${{ topic: "" }} form=${createForm} onDone=${list.reload} />
    <//>
    <${Asked} of=${list}>${(data) => html`
      <${Table} name="Topics" rows=${data.topics} keyOf=${(row) => row.name} empty=${view.search ? `No topic has “${view.search}” in its name.` : "There are no topics yet."} columns=${[
        { label: "Name", show: (row) => html`<a href=${link("topics", row.name)}>${row.name}</a>${row.is_internal ? html` <small class="muted">internal</small>` : ""}` },
        { label: "Partitions", right: true, show: (row) => number(row.partition_count) },
        { label: "Replicas", right: true, show: (row) => number(row.replication_factor) },
        { label: "Replication", show: health },
        { label: "Records", right: true, show: (row) => number(of(row).records) },
        { label: "Size", right: true, show: (row) => bytes(of(row).bytes) },
        { label: "Written", right: true, show: (row) => rate(of(row).records_per_s) },
      ]} />
      <${Pager} busy=${list.isLoading} facts=${data} noun="topics" onPage=${(page) => setView({ ...view, page })} />
      <${Command} line=${data.command} />`}<//></div>`;
}

const tabs = (name) => [["records", "Records", link("topics", name)], ["partitions", "Partitions", link("topics", name, "partitions")],
  ["settings", "Settings", link("topics", name, "settings")], ["readers", "Readers and writers", link("topics", name, "readers")]];

const replicas = (row) => row.replicas.map((each, i) => html`${i ? " " : ""}<span class=${`replica ${each.in_sync ? "" : "behind"}`}>
  ${each.broker}${each.broker === row.leader ? " leads" : each.is_offline ? " down" : each.in_sync ? "" : " behind"}</span>`);

function Partitions({ name }) {
  const [page, setPage] = useState(1);
  const topic = useApi(`${path("topics", name)}${query({ page })}`, 10_000);
  return html`<${Asked} of=${topic}>${(data) => html`
    <${Table} name="Partitions" rows=${data.rows} keyOf=${(row) => row.partition} columns=${[
      { label: "Partition", show: (row) => row.partition },
      { label: "Leader", right: true, show: (row) => (row.leader === null ? html`<${State} kind="bad">none<//>` : `broker ${row.leader}`) },
      { label: "Replicas", show: replicas },
      { label: "First offset", right: true, show: (row) => number(row.start) },
      { label: "Next offset", right: true, show: (row) => number(row.end) },
      { label: "Size", right: true, show: (row) => bytes(row.bytes) },
    ]} />
    <${Pager} busy=${topic.isLoading} facts=${data.pages} noun="partitions" onPage=${setPage} />
    <${Command} line=${data.command} />`}<//>`;
}

const growForm = (given, change) => html`<${Field} label="Partitions"><input type="number" min="1" value=${given.partitions} onInput=${(e) => change({ partitions: Number(e.currentTarget.value) })} /><//>`;
const sources = { TOPIC: "this topic", DYNAMIC_BROKER: "the broker, while it runs", DYNAMIC_DEFAULT_BROKER: "all brokers, while they run", STATIC_BROKER: "the broker's file", DEFAULT: "default", OTHER: "other" };

const settingForm = (name) => (given, change) => html`
  <${Field} label=${name} note="Empty: back to the default"><input value=${given.configs[name] || ""} onInput=${(e) => change({ configs: { [name]: e.currentTarget.value || null } })} /><//>`;

export function Settings({ configs, topic, onDone }) {
  const [search, setSearch] = useState("");
  const found = configs.filter((each) => each.name.includes(search.trim().toLowerCase()));
  return html`<div class="page">
    <div class="bar"><${SearchBox} label="Search settings" value=${search} onSearch=${setSearch} /></div>
    <${Table} name="Settings" rows=${found} keyOf=${(row) => row.name} columns=${[
      { label: "Setting", show: (row) => html`<span title=${row.doc || ""}>${row.name}</span>`, kind: "mono" },
      { label: "Value", kind: "mono wrap", show: (row) => (row.is_sensitive ? "not shown" : row.value === null || row.value === "" ? "–" : row.value) },
      { label: "From", show: (row) => html`<${State} kind=${row.source === "DEFAULT" ? "quiet" : "accent"}>${sources[row.source]}<//>${row.is_without_effect ? html` <small class="muted">without effect</small>` : ""}` },
      topic && { label: "", right: true, show: (row) => !row.is_read_only && html`<${Action} label="Change" kind="quiet" action="set-configs" verb="Change it" body=${{ topic, configs: { [row.name]: row.value } }} form=${settingForm(row.name)} onDone=${onDone} />` },
    ].filter(Boolean)} /></div>`;
}

function TopicSettings({ name }) {
  const asked = useApi(`${path("topics", name)}/configs`);
  return html`<${Asked} of=${asked}>${(data) => html`<${Settings} configs=${data.configs} topic=${name} onDone=${asked.reload} /><${Command} line=${data.command} />`}<//>`;
}

function Readers({ name }) {
  const readers = useApi(`${path("topics", name)}/readers`, 10_000);
  const writers = useApi(`${path("topics", name)}/writers`, 10_000);
  return html`<div class="page">
    <${Panel} name="Groups that read it"><${Asked} of=${readers}>${(data) => html`
      <${Table} name="Groups" rows=${data.readers} keyOf=${(row) => row.group} empty="No group has committed an offset of this topic." columns=${[
        { label: "Group", show: (row) => html`<a href=${link("groups", row.group)}>${row.group}</a>` },
        { label: "State", show: (row) => row.state }, { label: "Partitions", right: true, show: (row) => number(row.partitions) },
        { label: "Lag", right: true, show: (row) => count(row.lag, "record") }]} />
      ${data.asked < data.groups && html`<p class="muted">The first ${number(data.asked)} of ${number(data.groups)} groups were asked.</p>`}`}<//><//>
    <${Panel} name="Producers that its partitions know"><${Asked} of=${writers}>${(data) => html`
      <${Table} name="Producers" rows=${data.writers} keyOf=${(row) => row.producer_id} empty="No idempotent or transactional producer is known." columns=${[
        { label: "Producer id", show: (row) => row.producer_id }, { label: "Partitions", show: (row) => row.partitions.join(", ") },
        { label: "Last record", show: (row) => ago(row.last_ms) },
        { label: "Transaction", show: (row) => (row.is_open ? html`<${State} kind="warn">open<//>` : "none open") }]} />
      <${Command} line=${data.command} />`}<//><//></div>`;
}

export function Topic({ name, tab = "records", rest, values }) {
  const topic = useApi(`${path("topics", name)}${query({ per_page: 1 })}`, 10_000);
  const leave = () => { location.hash = "#/topics"; };
  return html`<div class="page">
    <${Title} text=${name} under=${html`<a href="#/topics">Topics</a>`}>
      <${Action} label="More partitions" action="grow-topic" verb="Let it grow" body=${{ topic: name, partitions: topic.data ? topic.data.partition_count + 1 : 1 }} form=${growForm} onDone=${topic.reload} />
      <${Action} label="Delete topic" kind="danger-quiet" action="delete-topic" verb="Delete the topic" body=${{ topic: name }} onDone=${leave} />
    <//>
    <${Asked} of=${topic}>${(data) => html`
      <${Facts} items=${[["Records", number(data.records)], ["Size", bytes(data.bytes), "all replicas"], ["Written", rate(data.records_per_s)],
        ["Partitions", number(data.partition_count)], ["Replicas", number(data.replication_factor)], ["Replication", health(data)]]} />`}<//>
    <${Tabs} name="About this topic" items=${tabs(name)} now=${tab} />
    ${tab === "records" ? html`<${Records} name=${name} count=${topic.data ? topic.data.partition_count : 1} place=${rest} values=${values} />`
      : tab === "partitions" ? html`<${Partitions} name=${name} />`
      : tab === "settings" ? html`<${TopicSettings} name=${name} />` : html`<${Readers} name=${name} />`}</div>`;
}
