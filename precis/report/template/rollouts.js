// The page of rollouts at work: two sides, each a step and one of its rollouts.

const data = await unpack(control("data").textContent);
const SIDES = ["left", "right"];
const NAMES = { validation: "held-out scenarios", train: "training" };
const stepsOf = () => data.splits[control("split").value];
const key = (each) => JSON.stringify([each.scenario, each.index]);

function listed(step) {
  const scenario = control("scenario").value;
  return (stepsOf()[step] ?? []).filter((each) => scenario === "" || each.scenario === scenario);
}

function show(side) {
  const step = control(`${side}-step`).value;
  const rollout = listed(step).find((each) => key(each) === control(`${side}-rollout`).value);
  control(side).replaceChildren(...shownRollout(step, rollout, data.texts));
  unfold();
}

function unfold() {
  for (const each of document.querySelectorAll("article details")) each.open = control("unfold").checked;
}

// A side's rollouts; it stays with the one that it shows, or else with its scenario.
function list(side) {
  const select = control(`${side}-rollout`);
  const before = select.value;
  const found = listed(control(`${side}-step`).value);
  const several = found.some((each) => each.index > 0);
  fill(select, found.map((each) => {
    const name = several ? `${each.scenario} (${each.index + 1})` : each.scenario;
    return [key(each), `${name}: ${mark(each)}`];
  }));
  if (before && select.value !== before) follow(side, JSON.parse(before));
  show(side);
}

// Have a side show a scenario, and the same attempt at it if there is one.
function follow(side, [scenario, index]) {
  const found = listed(control(`${side}-step`).value).filter((each) => each.scenario === scenario);
  const same = found.find((each) => each.index === index) ?? found[0];
  if (same) control(`${side}-rollout`).value = key(same);
}

function choose(side) {
  const chosen = control(`${side}-rollout`).value;
  show(side);
  const other = side === "left" ? "right" : "left";
  if (!chosen) return;
  follow(other, JSON.parse(chosen));
  show(other);
}

function listAll() {
  const steps = Object.keys(stepsOf()).map(Number).sort((one, other) => one - other);
  const scenarios = new Set(Object.values(stepsOf()).flat().map((each) => each.scenario));
  fill(control("scenario"), [["", "all"], ...[...scenarios].sort().map((each) => [each, each])]);
  for (const [side, first] of [["left", steps.at(0)], ["right", steps.at(-1)]]) {
    const select = control(`${side}-step`);
    const before = select.value;
    fill(select, steps.map((step) => [String(step), String(step)]));
    if (select.value !== before) select.value = String(first ?? "");
  }
  listRollouts();
}

function listRollouts() {
  list("left");
  list("right");
  choose("left");
}

const filled = Object.keys(NAMES).filter((split) => Object.keys(data.splits[split]).length);
fill(control("split"), filled.map((split) => [split, NAMES[split]]));
listAll();
for (const side of SIDES) {
  control(`${side}-step`).addEventListener("change", () => list(side));
  control(`${side}-rollout`).addEventListener("change", () => choose(side));
  control(`${side}-previous`).addEventListener("click", () => move(`${side}-rollout`, -1, () => choose(side)));
  control(`${side}-next`).addEventListener("click", () => move(`${side}-rollout`, 1, () => choose(side)));
}
control("split").addEventListener("change", listAll);
control("scenario").addEventListener("change", listRollouts);
control("unfold").addEventListener("change", unfold);
