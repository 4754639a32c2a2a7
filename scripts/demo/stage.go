package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"urr.guru/scripts/crowd"
)

// Stage has what every demo needs: a client for the gateway, progress bars, and the recorded
// samples.
type Stage struct {
	API      *crowd.API
	Recorder *crowd.Recorder
	Tally    Tally

	began    time.Time
	took     time.Duration
	samples  []RunSample
	progress *Progress
}

// NewStage returns a stage with a client for the gateway at url.
func NewStage(url string) *Stage {
	s := &Stage{Recorder: crowd.NewRecorder()}
	s.API = crowd.NewAPI(url, s.Recorder)
	return s
}

func (s *Stage) Close() { s.API.Close() }

// Begin starts the clock and the progress bars of a run. The returned function stops both.
func (s *Stage) Begin(bars ...ProgressBar) (end func()) {
	s.began, s.progress = time.Now(), NewProgress(bars...)
	return func() {
		s.took = time.Since(s.began)
		s.progress.Close()
	}
}

func (s *Stage) Began() time.Time { return s.began }

func (s *Stage) Ended() time.Time { return s.began.Add(s.took) }

func (s *Stage) Elapsed() time.Duration { return time.Since(s.began) }

func (s *Stage) Say(format string, args ...any) {
	s.progress.Say("%4.0f s  %s", s.Elapsed().Seconds(), fmt.Sprintf(format, args...))
}

// NamedNumber is a number with its name, for a sample, table or progress bar.
type NamedNumber struct {
	Name string
	N    int64
}

// RunSample has the numbers of a run at one moment, by name. One of them, seconds, is the time
// since the run began.
type RunSample map[string]float64

const seconds = "seconds"

// AddSample records numbers as a sample of this moment, and shows each on the bar of the same name.
func (s *Stage) AddSample(values ...NamedNumber) {
	sample := RunSample{seconds: s.Elapsed().Seconds()}
	var line strings.Builder
	for _, v := range values {
		sample[v.Name] = float64(v.N)
		fmt.Fprintf(&line, "  %s %d", v.Name, v.N)
	}
	s.samples = append(s.samples, sample)
	s.progress.update(fmt.Sprintf("%4.0f s%s", sample[seconds], &line), sample)
}

// sayEvery is how often progress is printed if standard output is no terminal.
const sayEvery = 5 * time.Second

// ProgressBar is a progress bar for the sampled number with the same name.
type ProgressBar struct {
	Name  string
	Total int
}

// WriteReport adds what the stage has recorded to a report, and writes it into the folder dir.
func (s *Stage) WriteReport(r *Report, v Verdict, findings []string, dir string) error {
	r.Verdict, r.Findings, r.Steps = v, findings, s.Recorder.Summaries()
	r.Passed, r.StartedAt, r.TookSeconds, r.Samples = v.OK(), s.began.UTC(), s.took.Seconds(), s.samples
	if r.Outcomes == nil {
		r.Outcomes = s.Tally.Outcomes()
	}
	return r.publish(s.Recorder, dir)
}

// Progress shows progress bars if standard output is a terminal; otherwise it prints lines.
type Progress struct {
	shown    *mpb.Progress // nil: no terminal
	bars     map[string]*mpb.Bar
	lastLine time.Time
	out      io.Writer
}

// NewProgress shows bars on standard output until Close.
func NewProgress(bars ...ProgressBar) *Progress {
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

// update sets the bars to the numbers of the sample or, if there is no terminal, prints the line.
func (p *Progress) update(line string, sample RunSample) {
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

// Close stops the bars and leaves them on the screen.
func (p *Progress) Close() {
	if p.shown == nil {
		return
	}
	for _, b := range p.bars {
		b.Abort(false)
	}
	p.shown.Wait()
}
