package pages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/profiler"
	"github.com/stretchr/testify/require"
)

// testLargeHall zooms and selects on a map of 50,000 seats. It counts work instead of measuring
// time, which depends on the machine: each turn of the wheel is drawn in the next frame, and
// drawing is proportional to the visible seats, not to all.
func testLargeHall(t *testing.T) {
	parallelTab(t)
	const seats, turns = 50_000, 40
	var sections []object
	for i := range 5 {
		sections = append(sections, object{"section": fmt.Sprintf("S%d", i), "price": 50000, "rows": 100, "seatsPerRow": seats / 5 / 100})
	}
	b := openTab(t, platformURL, desktop, "en")
	call(b, profiler.Enable, cdp.Empty{})
	exact := true // from the start: already compiled code has no block counts
	call(b, profiler.StartPreciseCoverage, profiler.StartPreciseCoverageParams{CallCount: &exact, Detailed: &exact})
	b.openSeatMap(sale{sections: sections}.open(t), uniqueID("large"))
	b.checkPage("large")

	require.GreaterOrEqual(t, b.busiestBlock(), int64(seats), "the first picture colours every seat: the runs are really counted")
	require.LessOrEqual(t, eval[int](b, fmt.Sprintf(turnWheel, turns)), 2*turns, "frames until each turn of the wheel was drawn")
	require.Less(t, b.busiestBlock()/turns, int64(seats/10), "runs of the busiest code for each turn of the wheel")

	b.click("canvas")
	b.until("a chosen seat", "document.querySelectorAll('.selection li').length === 1")
}

// turnWheel zooms in and out completely and counts the frames. It turns the wheel again when the
// previous turn was drawn.
const turnWheel = `new Promise(done => {
	const turns = %d, canvas = document.querySelector("canvas"), box = canvas.getBoundingClientRect();
	const draw = CanvasRenderingContext2D.prototype.drawImage;
	let drawn = 0, turned = 0, frames = 0;
	CanvasRenderingContext2D.prototype.drawImage = function (...args) {
		if (this.canvas === canvas) drawn++;
		return draw.apply(this, args);
	};
	const step = () => {
		if (turned === turns) {
			CanvasRenderingContext2D.prototype.drawImage = draw;
			return done(frames);
		}
		const before = drawn;
		canvas.dispatchEvent(new WheelEvent("wheel", {
			deltaY: turned++ < turns / 2 ? -60 : 60, clientX: box.x + 100, clientY: box.y + 100, cancelable: true,
		}));
		const wait = () => requestAnimationFrame(() => { frames++; drawn > before ? step() : wait() });
		wait();
	};
	step();
})`

// busiestBlock returns how often the most frequently run block of the pages' scripts has run since
// the last call.
func (b *tab) busiestBlock() int64 {
	b.t.Helper()
	var most int64
	for _, script := range call(b, profiler.TakePreciseCoverage, cdp.Empty{}).Result {
		if !strings.HasPrefix(script.URL, b.base+"/assets/") {
			continue
		}
		for _, function := range script.Functions {
			for _, block := range function.Ranges {
				most = max(most, block.Count)
			}
		}
	}
	return most
}
