package promo

import (
	"context"
	"fmt"

	"urr.guru/pkg/fairdraw"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/demo"
)

// Verdict is the result of a run, with the names of its last line.
type Verdict struct {
	// Wanted is the number of those who applied to one of the promotions, Applicants that of users
	// with a request, summed over both.
	Wanted     int `json:"wanted"`
	Applicants int `json:"applicants"`
	// FirstCome and Lottery are the requests that succeeded; Places and Winners those that had to.
	FirstCome int `json:"first_come"`
	Lottery   int `json:"lottery"`
	Places    int `json:"places"`
	Winners   int `json:"winners"`
	// DuplicatesIn is the number of users with more than one request that counts, and of locks and
	// answers that contradict each other.
	DuplicatesIn int `json:"duplicates_in"`
	// OutOfOrder is the number of places that a later request got.
	OutOfOrder int `json:"out_of_order"`
	Unsettled  int `json:"unsettled"`
	// Unverified is the number of faults of the draw: of its public document, and of results in the
	// table that differ from it.
	Unverified int `json:"unverified"`
	// Other counts all other faults; the last line contains it if it is not 0.
	Other int `json:"other"`
}

// OK reports whether exactly those have a place who should.
func (v Verdict) OK() bool {
	return v.Applicants == v.Wanted && v.FirstCome == v.Places && v.Lottery == v.Winners &&
		v.DuplicatesIn == 0 && v.OutOfOrder == 0 && v.Unsettled == 0 && v.Unverified == 0 && v.Other == 0
}

// Line is the run's last line.
func (v Verdict) Line() string {
	return demo.LastLine("demo-promo", v.OK(), fmt.Sprintf("applicants=%d first_come=%d lottery=%d duplicates_in=%d out_of_order=%d unsettled=%d unverified=%d",
		v.Applicants, v.FirstCome, v.Lottery, v.DuplicatesIn, v.OutOfOrder, v.Unsettled, v.Unverified), v.Other)
}

// judge is a verdict in the making, with its evidence.
type judge struct {
	*Demo
	Verdict
	demo.Findings
}

// Judge reads the verdict from the stores and from the draw's public document.
func (d *Demo) Judge(ctx context.Context) (Verdict, demo.Findings, error) {
	n := d.opts.Applicants
	j := &judge{Demo: d, Verdict: Verdict{Wanted: 2 * n, Places: min(n, d.opts.FirstCome), Winners: min(n, d.opts.Lottery)}}
	first, err := d.audit.Get(ctx, d.first.event)
	if err != nil {
		return j.Verdict, j.Findings, err
	}
	lottery, err := d.audit.Get(ctx, d.lottery.event)
	if err != nil {
		return j.Verdict, j.Findings, err
	}
	j.FirstCome, j.Lottery = first.Succeeded(), lottery.Succeeded()
	j.stored(d.first, first)
	j.stored(d.lottery, lottery)
	j.drawn(ctx, lottery)
	if j.Applicants != j.Wanted {
		j.Add("%d of %d applications are stored", j.Applicants, j.Wanted)
	}
	return j.Verdict, j.Findings, nil
}

// stored compares the items of a promotion with each other.
func (j *judge) stored(b *burst, p *audit.Promotion) {
	users := map[string]bool{}
	for _, r := range p.Requests {
		users[r.User] = true
	}
	j.Applicants += len(users)
	f := p.Faults(nil)
	for _, kind := range []struct {
		count *int
		texts []string
	}{
		{&j.DuplicatesIn, append(f.Duplicates, b.tally.Violations()...)}, {&j.OutOfOrder, f.OutOfOrder}, {&j.Unsettled, f.Unsettled},
		{&j.Other, f.Places}, {&j.Other, f.Logs}, {&j.Other, f.Announcements}, {&j.Other, f.Miscounted},
	} {
		*kind.count += len(kind.texts)
		for _, text := range kind.texts {
			j.Add("%s: %s", b.name, text)
		}
	}
}

// drawn verifies the draw as anybody could, with all receipts and the document that was saved before
// the round, and compares the winners with the table.
func (j *judge) drawn(ctx context.Context, p *audit.Promotion) {
	unverified := func(format string, args ...any) {
		j.Unverified++
		j.Add("draw: "+format, args...)
	}
	doc, err := j.document(ctx)
	if err != nil {
		unverified("no document: %v", err)
		return
	}
	var entries []byte
	if doc.Statement != nil {
		if entries, err = j.read(ctx, "/api/v1/draws/"+j.lottery.event+"/entries"); err != nil {
			unverified("no entries: %v", err)
			return
		}
	}
	o := fairdraw.Options{Algorithm: fairdraw.AlgorithmDraw, Receipts: j.lottery.allReceipts()}
	if j.draw.earlier != nil {
		o.Earlier = append(o.Earlier, j.draw.earlier)
	}
	report, err := fairdraw.Verify(doc, entries, o)
	switch {
	case err != nil:
		unverified("%v", err)
		return
	case !report.Complete:
		unverified("the result is not public, the phase is %s", doc.Phase)
	case report.RootSeenAt.IsZero():
		unverified("the root was not seen before the round")
	}
	won := map[string]bool{}
	for _, id := range doc.Winners {
		won[id] = true
	}
	for _, r := range p.Requests {
		if succeeded := r.Status == "SUCCEEDED"; succeeded != won[r.ID] {
			unverified("%s is %s, a winner: %t", r.ID, r.Status, won[r.ID])
		}
	}
}
