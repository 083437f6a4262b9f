import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import type { DurationHistogram } from '../../api.ts';
import { plural } from '../parts/durations.ts';
import { useDark } from '../parts/media.ts';
import { barsOf, summaryOf } from './histogram.ts';

interface Props {
  readonly waits: DurationHistogram | null;
  readonly holds: DurationHistogram | null;
}

/** How long this process waited for the lock and held it. */
export function Durations({ waits, holds }: Props) {
  return (
    <section aria-labelledby="durations">
      <h2 id="durations">
        Durations{' '}
        <span class="muted count">of calls of the process that serves this page, since it started</span>
      </h2>
      {waits === null && holds === null ? (
        <p class="card note">
          This process has not used the lock. For all processes, use the OpenTelemetry metrics or{' '}
          <code>/metrics</code>.
        </p>
      ) : (
        <div class="charts">
          <Histogram title="Waits" one="wait" histogram={waits} colour="--waiting-fill" />
          <Histogram title="Holds" one="hold" histogram={holds} colour="--held" />
        </div>
      )}
    </section>
  );
}

interface HistogramProps {
  readonly title: string;
  readonly one: string;
  readonly histogram: DurationHistogram | null;
  /** The custom property with the colour of the bars. */
  readonly colour: string;
}

function Histogram({ title, one, histogram, colour }: HistogramProps) {
  if (histogram === null || histogram.count === 0) {
    return (
      <figure class="card chart">
        <figcaption>
          <strong>{title}</strong> <span class="muted">none yet</span>
        </figcaption>
      </figure>
    );
  }
  const { average, half, most } = summaryOf(histogram);
  return (
    <figure class="card chart">
      <figcaption>
        <strong>{title}</strong>{' '}
        <span class="muted">
          {plural(histogram.count, one)}, {average} on average, median {half}, 95th percentile {most}
        </span>
      </figcaption>
      <Chart histogram={histogram} colour={colour} />
    </figure>
  );
}

const HEIGHT = 150;

function Chart({ histogram, colour }: { histogram: DurationHistogram; colour: string }) {
  const box = useRef<HTMLDivElement>(null);
  const isDark = useDark();
  const text = JSON.stringify(histogram.counts);
  // Drawn again for other counts or colours.
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const plot = draw(element, histogram, colour);
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [text, colour, isDark]);
  return <div class="plot" ref={box} aria-hidden="true" />;
}

function draw(element: HTMLElement, histogram: DurationHistogram, colour: string): uPlot {
  const style = getComputedStyle(element);
  const colourOf = (property: string): string => style.getPropertyValue(property).trim();
  const { labels, counts } = barsOf(histogram);
  const axis = {
    stroke: colourOf('--muted'),
    font: `11px ${style.fontFamily}`,
    ticks: { show: false },
    border: { show: true, stroke: colourOf('--border') },
  };
  const options: uPlot.Options = {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => [-0.6, labels.length - 0.4] },
      y: { range: (_, __, max) => [0, max * 1.1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        grid: { show: false },
        splits: () => labels.map((_, n) => n),
        values: (plot, splits) =>
          fitting(splits, plot.width).map((n) => (n === null ? '' : (labels[n] ?? ''))),
      },
      {
        ...axis,
        size: 44,
        grid: { stroke: colourOf('--border'), width: 1 },
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6],
      },
    ],
    series: [
      {},
      {
        fill: colourOf(colour),
        width: 0,
        paths: uPlot.paths.bars?.({ size: [0.72, 64], radius: 0.12 }) ?? (() => null),
        points: { show: false },
      },
    ],
  };
  return new uPlot(options, [labels.map((_, n) => n), [...counts]], element);
}

const LABEL_WIDTH = 56;

/** Every second or third label only, where all of them would overlap. */
function fitting(splits: readonly number[], width: number): (number | null)[] {
  const step = Math.max(1, Math.ceil((splits.length * LABEL_WIDTH) / Math.max(width, 1)));
  return splits.map((n, at) => (at % step === 0 ? n : null));
}
