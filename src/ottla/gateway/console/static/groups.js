import { html, useState } from "./preact.js";
import { path, query, useApi } from "./api.js";
import { Action } from "./action.js";
import { Chart } from "./charts.js";
import { count, duration, number } from "./format.js";
import { Asked, Command, Facts, Field, link, Pager, Panel, SearchBox, State, Table, Title } from "./parts.js";

const kinds = { Stable: "good", Empty: "quiet", Dead: "quiet", PreparingRebalance: "warn", CompletingRebalance: "warn" };
const words = { PreparingRebalance: "rebalancing", CompletingRebalance: "rebalancing", Stable: "stable", Empty: "no members", Dead: "gone" };
const state = (name) => html`<${State} kind=${kinds[name] || "quiet"}>${words[name] || name}<//>`;

export function Groups() {
  const [view, setView] = useState({ search: "", page: 1 });
  const list = useApi(`/groups${query(view)}`, 10_000);
  return html`<div class="page">
    <${Title} text="Groups"><${SearchBox} label="Search groups" value=${view.search} onSearch=${(search) => setView({ search, page: 1 })} /><//>
    <${Asked} of=${list}>${(data) => html`
      <${Table} name="Groups" rows=${data.groups} keyOf=${(row) => row.group} empty=${view.search ? `No group has “${view.search}” in its name.` : "There are no consumer groups yet."} columns=${[
        { label: "Group", show: (row) => html`<a href=${link("groups", row.group)}>${row.group}</a>` },
        { label: "State", show: (row) => state(row.state) },
        { label: "Members", right: true, show: (row) => number(row.members) },
        { label: "Topics", kind: "clip", show: (row) => row.topics.join(", ") || "–" },
        { label: "Lag", right: true, show: (row) => number(row.lag) },
      ]} />
      <${Pager} busy=${list.isLoading} facts=${data} noun="groups" onPage=${(page) => setView({ ...view, page })} />
      <${Command} line=${data.command} />`}<//></div>`;
}

const targets = [["to-earliest", "the first record there is"], ["to-latest", "the end: only what comes from now on"], ["to-offset", "an offset"], ["to-time", "a time"], ["shift", "so many records forward, or back with a minus"]];

const resetForm = (given, change) => html`
  <${Field} label="Move to"><select value=${given.target} onChange=${(e) => change({ target: e.currentTarget.value, value: null })}>
    ${targets.map(([key, label]) => html`<option value=${key}>${label}</option>`)}</select><//>
  ${(given.target === "to-offset" || given.target === "shift") && html`<${Field} label=${given.target === "shift" ? "Records" : "Offset"}><input type="number" onInput=${(e) => change({ value: e.currentTarget.value === "" ? null : Number(e.currentTarget.value) })} /><//>`}
  ${given.target === "to-time" && html`<${Field} label="Time"><input type="datetime-local" step="1" onInput=${(e) => change({ value: e.currentTarget.value ? new Date(e.currentTarget.value).toISOString() : null })} /><//>`}
  <${Field} label="Only these topics" note="orders, or orders:0,2 for some partitions; several with spaces; empty for all"><input onInput=${(e) => change({ topics: e.currentTarget.value.split(/\s+/).filter(Boolean) })} /><//>`;

const deletion = (row) => (row.lost_records > 0 ? html`<${State} kind="bad">${count(row.lost_records, "record")} lost<//>`
  : row.deletable_in_ms === null ? "–" : row.deletable_in_ms < 3_600_000 ? html`<${State} kind="warn">in ${duration(row.deletable_in_ms)}<//>` : `in ${duration(row.deletable_in_ms)}`);

function Members({ group, members, onDone }) {
  return html`<${Panel} name="Members" tools=${members.length > 0 && html`<${Action} label="Remove all members" kind="quiet" action="remove-members" verb="Remove them" body=${{ group }} onDone=${onDone} />`}>
    <${Table} name="Members" rows=${members} keyOf=${(row) => row.member_id} empty="It has no members: nobody reads for it now." columns=${[
      { label: "Client", show: (row) => row.client_id || "–" }, { label: "Host", kind: "mono", show: (row) => row.client_host },
      { label: "Member id", kind: "mono clip", show: (row) => row.group_instance_id || row.member_id },
      { label: "Partitions", kind: "wrap", show: (row) => Object.entries(row.assignment).map(([topic, some]) => `${topic}: ${some.join(", ")}`).join("; ") || "none" }]} /><//>`;
}

export function Group({ name }) {
  const asked = useApi(path("groups", name), 5_000);
  const leave = () => { location.hash = "#/groups"; };
  const total = (rows, field) => rows.reduce((sum, row) => sum + (row[field] || 0), 0);
  const worst = (rows) => Math.max(-1, ...rows.map((row) => (row.waiting_ms === null ? -1 : row.waiting_ms)));
  return html`<div class="page">
    <${Title} text=${name} under=${html`<a href="#/groups">Groups</a>`}>
      <${Action} label="Move offsets" action="reset-offsets" verb="Move the group" body=${{ group: name, target: "to-earliest", topics: [] }} form=${resetForm} onDone=${asked.reload} />
      <${Action} label="Delete group" kind="danger-quiet" action="delete-group" verb="Delete the group" body=${{ group: name }} onDone=${leave} />
    <//>
    <${Asked} of=${asked}>${(data) => html`
      <${Facts} items=${[["State", state(data.state)], ["Members", number(data.members.length)], ["Lag", number(total(data.partitions, "lag_records")), "records"],
        ["Oldest unread", worst(data.partitions) < 0 ? "–" : duration(worst(data.partitions)), "has waited"], ["Assignor", data.protocol || "–"], ["Coordinator", `broker ${data.coordinator}`]]} />
      <${Panel} name="Lag over time"><${Chart} name="Records to read" times=${data.history.at_ms} values=${data.history.lag} show=${number} /><//>
      <${Panel} name="Progress"><${Table} name="Progress" rows=${data.partitions} keyOf=${(row) => `${row.topic}-${row.partition}`} empty="It has committed nothing." columns=${[
        { label: "Partition", show: (row) => html`<a href=${link("topics", row.topic)}>${row.topic}</a> ${row.partition}` },
        { label: "Committed", right: true, show: (row) => number(row.committed_offset) }, { label: "End", right: true, show: (row) => number(row.log_end_offset) },
        { label: "Lag", right: true, show: (row) => number(row.lag_records) },
        { label: "Waiting for", right: true, show: (row) => (row.waiting_ms ? duration(row.waiting_ms) : row.waiting_ms === 0 ? "nothing" : "–") },
        { label: "May be deleted", right: true, show: deletion }, { label: "Read by", kind: "clip", show: (row) => row.client_id || "nobody" }]} /><//>
      <${Members} group=${name} members=${data.members} onDone=${asked.reload} />
      <${Command} line=${data.command} />`}<//></div>`;
}
