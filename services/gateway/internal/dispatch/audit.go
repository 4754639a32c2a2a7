package dispatch

import (
	"cmp"
	"net/http"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/services/gateway/internal/audit"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/problem"
)

// serveAct serves an operator's act: it records the act before, and its outcome afterwards.
// Requests that an earlier check has refused are not recorded.
func (d *Dispatcher) serveAct(w http.ResponseWriter, r *http.Request, q *edge.Request) (err error) {
	a := &audit.Act{
		ID: ids.NewV7(), At: d.Cookies.Now(), UserID: q.User(), Method: q.Route.Method, Route: q.Route.Pattern, Path: q.Path,
		EventID: q.EventInPath(), RequestID: q.ID, Body: q.Body,
		ServedWithoutKafka: q.Route.ServedWithoutKafka && (q.Route.Irreversible == nil || !q.Route.Irreversible(q.Body)),
	}
	if client := d.Proxies.Client(r); client.IsValid() {
		a.Address = client.String()
	}
	if query := r.URL.Query(); len(query) > 0 {
		a.Path += "?" + query.Encode() // it identifies the person whose data was read
	}
	returned := false
	defer func() {
		if !returned { // a panic, which the caller turns into a response
			err = errs.ErrInternal
		}
		d.Audit.RecordOutcome(a, outcomeOf(q, err))
	}()
	if err = d.Audit.RecordAct(r.Context(), a); err == nil {
		err = q.Route.Handler(w, r, q)
		if q.Upload != nil {
			q.Upload.Drain(r.Context())
		}
		if err == nil && q.Refused == nil && a.EventID == "" && q.Route.EventOf != nil { // only after success, since finding the event is a call
			a.EventID = q.Route.EventOf(r.Context(), q)
		}
	}
	returned = true
	return err
}

// outcomeOf returns the status and error code of the response, and what the act's record lacks of an
// upload. On pass-through routes, whose errors are written already, the error is q.Refused, else err.
func outcomeOf(q *edge.Request, err error) audit.Outcome {
	o := audit.Outcome{Status: cmp.Or(q.Route.Status, http.StatusOK), Entries: q.Entries}
	if q.Upload != nil {
		o.BodySHA256 = q.Upload.SHA256()
	}
	e := q.Refused
	if err != nil {
		e = errs.From(err)
	}
	if e != nil {
		o.Status, o.Code = problem.Status(e), e.Reason
	}
	return o
}
