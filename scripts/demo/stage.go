package demo

import (
	"fmt"
	"strings"
	"time"

	"urr.guru/scripts/crowd"
)

// Stage is what every run has: the gateway, and what is noted while it goes on.
type Stage struct {
	API      *crowd.API
	Recorder *crowd.Recorder
	Tally    Tally

	began    time.Time
	took     time.Duration
	samples  []Sample
	progress *Progress
}

// NewStage reaches the gateway at a URL.
func NewStage(url string) *Stage {
	s := &Stage{Recorder: crowd.NewRecorder()}
	s.API = crowd.NewAPI(url, s.Recorder)
	return s
}

func (s *Stage) stage() *Stage { return s }

func (s *Stage) Close() { s.API.Close() }

// Begin begins the run and its progress, which end with end.
func (s *Stage) Begin(bars ...Bar) (end func()) {
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

// Value is a number of a sample.
type Value struct {
	Name string
	N    int64
}

// Sample is the state of a run at one instant: the values by their names, and the seconds since the
// beginning.
type Sample map[string]float64

const seconds = "seconds"

// Note keeps a sample, and shows it: the bars have the values of their names.
func (s *Stage) Note(values ...Value) {
	sample := Sample{seconds: s.Elapsed().Seconds()}
	var line strings.Builder
	for _, v := range values {
		sample[v.Name] = float64(v.N)
		fmt.Fprintf(&line, "  %s %d", v.Name, v.N)
	}
	s.samples = append(s.samples, sample)
	s.progress.update(fmt.Sprintf("%4.0f s%s", sample[seconds], &line), sample)
}

// publish prints the tables of a run and writes its report into a folder.
func (s *Stage) publish(r *Report, v Verdict, findings []string, dir string) error {
	r.Verdict, r.Findings, r.Steps = v, findings, s.Recorder.Summaries()
	r.Passed, r.StartedAt, r.TookSeconds, r.Samples = v.OK(), s.began.UTC(), s.took.Seconds(), s.samples
	if r.Outcomes == nil {
		r.Outcomes = s.Tally.Outcomes()
	}
	return r.publish(s.Recorder, dir)
}
