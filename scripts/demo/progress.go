package demo

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// sayEvery is the interval of progress lines when there is no terminal.
const sayEvery = 5 * time.Second

// Bar is a bar of the progress, which shows the value of its name.
type Bar struct {
	Name  string
	Total int
}

// Progress shows bars on a terminal and prints lines elsewhere.
type Progress struct {
	shown    *mpb.Progress // nil: no terminal
	bars     map[string]*mpb.Bar
	lastLine time.Time
	out      io.Writer
}

// NewProgress shows bars of standard output until Close.
func NewProgress(bars ...Bar) *Progress {
	p := &Progress{out: os.Stdout}
	if !term.IsTerminal(int(os.Stdout.Fd())) {
		return p
	}
	p.shown = mpb.New(mpb.WithWidth(48), mpb.WithOutput(os.Stdout))
	p.bars = map[string]*mpb.Bar{}
	for _, b := range bars {
		p.bars[b.Name] = p.shown.AddBar(int64(b.Total),
			mpb.PrependDecorators(decor.Name(b.Name, decor.WC{W: 10, C: decor.DindentRight})),
			mpb.AppendDecorators(decor.CountersNoUnit("%d / %d")))
	}
	return p
}

// update sets the bars, or prints the line.
func (p *Progress) update(line string, sample Sample) {
	if p.shown != nil {
		for name, bar := range p.bars {
			bar.SetCurrent(int64(sample[name]))
		}
		return
	}
	if time.Since(p.lastLine) < sayEvery {
		return
	}
	p.lastLine = time.Now()
	fmt.Fprintln(p.out, line)
}

func (p *Progress) Say(format string, args ...any) {
	out := p.out
	if p.shown != nil {
		out = p.shown
	}
	fmt.Fprintf(out, format+"\n", args...)
}

// Close leaves the bars on the screen.
func (p *Progress) Close() {
	if p.shown == nil {
		return
	}
	for _, b := range p.bars {
		b.Abort(false)
	}
	p.shown.Wait()
}
