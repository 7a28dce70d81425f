
'use strict';
(() => {
  const tip = document.createElement('div');
  tip.id = 'tip';
  tip.hidden = true;
  document.body.append(tip);
  let on = null;
  const leave = () => {
    if (on) on.classList.remove('on');
    on = null;
    tip.hidden = true;
  };
  for (const svg of document.querySelectorAll('svg.fig')) {
    const points = [...svg.querySelectorAll('.p')].map(g => {
      const title = g.querySelector('title'), text = title.textContent;
      title.remove();
      g.setAttribute('aria-label', text);
      const box = g.lastElementChild.getBBox();
      return {g, text, x: box.x + box.width / 2, y: box.y + box.height / 2};
    });
    const find = event => {
      const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      let best = null, nearest = 40;
      for (const p of points) {
        const d = Math.hypot(box.left + p.x * scale - event.clientX, box.top + p.y * scale - event.clientY);
        if (d < nearest) { nearest = d; best = p; }
      }
      leave();
      if (!best) return;
      on = best.g;
      on.classList.add('on');
      tip.textContent = best.text;
      tip.hidden = false;
      const x = box.left + best.x * scale, y = box.top + best.y * scale;
      const left = x + 14 + tip.offsetWidth > innerWidth ? x - 14 - tip.offsetWidth : x + 14;
      tip.style.left = Math.max(4, left) + 'px';
      tip.style.top = Math.max(4, y - tip.offsetHeight - 10) + 'px';
    };
    svg.addEventListener('pointermove', find);
    svg.addEventListener('pointerdown', find);
    svg.addEventListener('pointerleave', leave);
  }
  addEventListener('scroll', leave, {passive: true});
})();
