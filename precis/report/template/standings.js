"use strict";

// What the filters do to the standings. The page itself holds the figures of all topics; those of
// a single topic come from the data.

function rememberOverall(rows) {
  for (const cell of rows.flatMap((row) => [...row.querySelectorAll("td")])) {
    cell.dataset.overall = cell.textContent;
  }
}

function topicFigures(contender, topic, documents) {
  const found = documents.filter((each) => each.topic === topic)
    .map((each) => contender.summaries[each.id]).filter(Boolean);
  const scored = found.filter((each) => !each.cause);
  const [accuracy, interval] = contender.topics[topic] ?? ["", ""];
  const missing = found.length - scored.length;
  return {
    accuracy,
    interval,
    documents: String(scored.length),
    unscored: missing ? String(missing) : "",
  };
}

function filterStandings(data, topic, models) {
  const table = document.getElementById("standings");
  table.classList.toggle("by-topic", topic !== "");
  for (const row of table.querySelectorAll("tr[data-contender]")) {
    const index = Number(row.dataset.contender);
    row.hidden = !models.has(index);
    const figures = topic && topicFigures(data.contenders[index], topic, data.documents);
    for (const name of ["accuracy", "interval", "documents", "unscored"]) {
      const cell = row.querySelector(`.${name}`);
      cell.textContent = figures ? figures[name] : cell.dataset.overall;
    }
  }
}
