package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PromotionFaults has the faults of a promotion, a sentence each. It is valid only when no request
// of the promotion is in progress: before that, a request without a final status is no fault.
type PromotionFaults struct {
	// Places describes too many or too few winners, and a wrong number of places left.
	Places []string
	// OutOfOrder are winners whose request entered the queue after one that was rejected as sold out,
	// and requests that were decided by a message that was never in the queue.
	OutOfOrder []string
	// Duplicates are users with several valid requests, and locks with the id of another request.
	Duplicates []string
	// Unsettled are requests without a final status, markers, and outbox items not yet published.
	Unsettled []string
	// Logs are requests whose log of statuses has gaps, or whose last entry differs from the request.
	Logs []string
	// Announcements are Kafka events of results: missing, with two ids, or contradicting the request.
	Announcements []string
	// Miscounted are stored counters of the promotion that differ from the numbers of its requests.
	Miscounted []string
}

func (f PromotionFaults) All() []string {
	return slices.Concat(
		prefixEach("places: ", f.Places), prefixEach("out of order: ", f.OutOfOrder), prefixEach("duplicate: ", f.Duplicates), prefixEach("unsettled: ", f.Unsettled),
		prefixEach("log: ", f.Logs), prefixEach("announcement: ", f.Announcements), prefixEach("miscounted: ", f.Miscounted),
	)
}

// Statuses and result codes of requests, as they are stored in the table.
const (
	succeeded   = "SUCCEEDED"
	rejected    = "REJECTED"
	failedFinal = "FAILED_FINAL"

	rejectedCapacity  = "REJECTED_CAPACITY"
	rejectedLose      = "REJECTED_LOTTERY_LOSE"
	rejectedDuplicate = "REJECTED_DUPLICATE"
	rejectedWithdrawn = "REJECTED_WITHDRAWN"
)

func isFinal(status string) bool {
	return status == succeeded || status == rejected || status == failedFinal
}

func (p *Promotion) Succeeded() int {
	n := 0
	for _, r := range p.Requests {
		if r.Status == succeeded {
			n++
		}
	}
	return n
}

// Faults compares the items of a promotion with each other and with its Kafka events. sent has, by
// request id, the positions in the queue that awsproxy recorded (Proxy.Sent). If it is nil, the
// stored queueSeq of the requests gives their order.
func (p *Promotion) Faults(sent map[string][]string) PromotionFaults {
	f := PromotionFaults{Places: p.wrongPlaces(), OutOfOrder: p.outOfOrder(sent), Duplicates: p.duplicates(), Miscounted: p.wrongCounts()}
	for _, r := range p.Requests {
		if !isFinal(r.Status) {
			f.Unsettled = append(f.Unsettled, r.ID+" is "+r.Status)
			continue
		}
		f.Logs = append(f.Logs, r.wrongLogs()...)
		f.Announcements = append(f.Announcements, r.wrongAnnouncements(p.Announced[r.ID])...)
	}
	f.Unsettled = append(f.Unsettled, prefixEach("the marker ", p.Markers)...)
	f.Unsettled = append(f.Unsettled, prefixEach("the announcements ", p.Outbox)...)
	f.Logs = append(f.Logs, prefixEach("an item that is no request is in an index: ", p.Indexed)...)
	return f
}

func (p *Promotion) wrongPlaces() (out []string) {
	got, refused := int64(p.Succeeded()), 0
	for _, r := range p.Requests {
		if r.ResultCode == rejectedCapacity || r.ResultCode == rejectedLose {
			refused++
		}
	}
	switch {
	case got > p.Total:
		out = append(out, fmt.Sprintf("%d succeeded, %d may", got, p.Total))
	case refused > 0 && got < p.Total:
		out = append(out, fmt.Sprintf("%d succeeded of %d, and %d were rejected", got, p.Total, refused))
	}
	if p.Limited && p.Remaining != p.Total-got {
		out = append(out, fmt.Sprintf("%d are left of %d, and %d succeeded", p.Remaining, p.Total, got))
	}
	if p.EventType == "FIRST_COME" && !p.Limited {
		out = append(out, "the capacity is missing")
	}
	return out
}

// outOfOrder compares the results with the order of the queue. It ignores requests that failed
// once: they are decided later, and get a place only if one is left.
func (p *Promotion) outOfOrder(sent map[string][]string) (out []string) {
	if p.EventType != "FIRST_COME" {
		return nil
	}
	type queued struct {
		seq string
		r   *EventRequest
	}
	var order []queued
	used := map[string]string{}
	for i := range p.Requests {
		r := &p.Requests[i]
		if other := used[r.QueueSeq]; r.QueueSeq != "" && other != "" {
			out = append(out, fmt.Sprintf("%s and %s were settled in the turn %s", other, r.ID, r.QueueSeq))
		}
		used[r.QueueSeq] = r.ID
		if r.Status == succeeded && r.QueueSeq == "" {
			out = append(out, r.ID+" succeeded without a message")
		}
		seqs := make([]string, len(sent[r.ID]))
		for i, s := range sent[r.ID] {
			seqs[i] = padSequence(s)
		}
		if sent != nil && r.QueueSeq != "" && !slices.Contains(seqs, r.QueueSeq) {
			out = append(out, fmt.Sprintf("%s was settled in the turn %s, its own are %v", r.ID, r.QueueSeq, sent[r.ID]))
		}
		if r.Gen > 0 || r.Status == failedFinal || r.ResultCode == rejectedDuplicate || slices.Contains(p.DeadLetters, r.ID) {
			continue
		}
		turn := r.QueueSeq
		if len(seqs) > 0 {
			turn = slices.Min(seqs)
		}
		if turn == "" {
			turn = "~" // was never in the queue: sorts after all positions
		}
		order = append(order, queued{turn, r})
	}
	slices.SortFunc(order, func(a, b queued) int { return strings.Compare(a.seq, b.seq) })
	var firstRejected *queued
	for i, x := range order {
		switch {
		case x.r.ResultCode == rejectedCapacity && firstRejected == nil:
			firstRejected = &order[i]
		case x.r.Status == succeeded && firstRejected != nil:
			out = append(out, fmt.Sprintf("%s (%s) succeeded, %s (%s) did not", x.r.ID, x.seq, firstRejected.r.ID, firstRejected.seq))
		}
	}
	return out
}

// padSequence adds leading zeros to a position in the queue, so that all positions sort as texts.
func padSequence(seq string) string {
	const digits = len("123456789012345678901234567890123456789.01")
	return strings.Repeat("0", max(0, digits-len(seq))) + seq
}

// duplicates compares the requests with their locks, the items that allow each user one request.
func (p *Promotion) duplicates() (out []string) {
	byID, requestOf := map[string]bool{}, map[string]string{}
	for _, r := range p.Requests {
		byID[r.ID] = true
		if r.Status == failedFinal || r.ResultCode == rejectedDuplicate || r.ResultCode == rejectedWithdrawn {
			continue
		}
		if other := requestOf[r.User]; other != "" {
			out = append(out, fmt.Sprintf("%s and %s are both of %s", other, r.ID, r.User))
		}
		requestOf[r.User] = r.ID
		if p.Locks[r.User] != r.ID {
			out = append(out, fmt.Sprintf("the lock of %s names %q, not %s", r.User, p.Locks[r.User], r.ID))
		}
	}
	for user, id := range p.Locks {
		if !byID[id] {
			out = append(out, fmt.Sprintf("the lock of %s names %s, which is no request", user, id))
		}
	}
	return out
}

// nextStatus has, for each status of a request, the statuses that may follow it.
var nextStatus = map[string][]string{
	"":           {"RECEIVED"},
	"RECEIVED":   {"QUEUED", rejected, failedFinal},
	"QUEUED":     {"PROCESSING", rejected, failedFinal},
	"PROCESSING": {succeeded, rejected, failedFinal},
	failedFinal:  {"QUEUED"},
}

func (r *EventRequest) wrongLogs() (out []string) {
	status, lastAt := "", int64(0)
	for _, l := range r.Logs {
		if l.From != status || !slices.Contains(nextStatus[status], l.To) {
			out = append(out, fmt.Sprintf("%s goes from %q to %q after %q", r.ID, l.From, l.To, status))
		}
		if l.SK != fmt.Sprintf("LOG#%013d", l.At) || l.At <= lastAt {
			out = append(out, fmt.Sprintf("%s has %s at %d, after %d", r.ID, l.SK, l.At, lastAt))
		}
		status, lastAt = l.To, l.At
	}
	if status != r.Status || lastAt != r.StatusAt {
		out = append(out, fmt.Sprintf("%s ends as %q at %d, the request is %s since %d", r.ID, status, lastAt, r.Status, r.StatusAt))
	}
	return out
}

// wrongAnnouncements compares the final statuses in the request's log with its Kafka events. Each
// may be published more than once, but always with the same event id.
func (r *EventRequest) wrongAnnouncements(published []RequestEvent) (out []string) {
	ids := map[int64]map[string]bool{} // by version
	for _, e := range published {
		if ids[e.Version] == nil {
			ids[e.Version] = map[string]bool{}
		}
		ids[e.Version][e.ID] = true
		if e.Version == r.StatusAt && (e.Status != r.Status || e.ResultCode != r.ResultCode || e.QueueSeq != r.QueueSeq) {
			out = append(out, fmt.Sprintf("%s is %s, %s by %s; the event says %+v", r.ID, r.Status, r.ResultCode, r.QueueSeq, e))
		}
	}
	for _, l := range r.Logs {
		if !isFinal(l.To) {
			continue
		}
		if n := len(ids[l.At]); n != 1 {
			out = append(out, fmt.Sprintf("%s became %s at %d: announced under %d ids", r.ID, l.To, l.At, n))
		}
		delete(ids, l.At)
	}
	for version := range ids {
		out = append(out, fmt.Sprintf("%s was announced at %d, when it did not end", r.ID, version))
	}
	return out
}

func (p *Promotion) wrongCounts() (out []string) {
	want := map[string]int64{"accepted": int64(len(p.Requests))}
	for _, r := range p.Requests {
		if isFinal(r.Status) {
			want[resultPrefix+r.ResultCode]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Counts)) {
		if _, ok := want[name]; !ok {
			want[name] = 0 // no request has this result now: a FAILED one may have been tried again
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if p.Counts[name] != want[name] {
			out = append(out, fmt.Sprintf("%s is %d, there are %d", name, p.Counts[name], want[name]))
		}
	}
	return out
}
