/** A canvas to draw on, of a size in pixels of the page. */

/** Cleared and scaled to the screen. It keeps its memory while its size stays: a new one makes the browser lay out and compose the page again. */
export function cleared(c: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D | null {
  const g = c.getContext("2d");
  if (!g) return null;
  const scale = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (c.width !== w) c.width = w;
  if (c.height !== h) c.height = h;
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.globalAlpha = 1;
  g.clearRect(0, 0, width, height);
  return g;
}
