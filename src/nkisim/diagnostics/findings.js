// Aligns each card with its line; without the script the cards form a plain column, as they do
// below the source on a narrow screen.
const align = () => {
for (const file of document.querySelectorAll(".nkisim .file")) {
  const cards = file.querySelector(".cards");
  const apart = getComputedStyle(file).display === "flex";
  let free = 0;
  for (const card of cards.children) {
    const line = file.querySelector(`.line[data-line="${card.dataset.line}"]`);
    const top = Math.max(line ? line.offsetTop - file.querySelector(".lines").offsetTop : 0, free);
    card.style.position = apart ? "absolute" : "static";
    card.style.top = top + "px";
    card.style.left = card.style.right = 0;
    free = top + card.offsetHeight + 8;
  }
  cards.style.minHeight = apart ? free + "px" : 0;
}
};
align();
addEventListener("resize", align);
