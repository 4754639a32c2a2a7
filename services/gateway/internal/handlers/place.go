package handlers

import (
	"net/http"
	"strconv"
	"unicode/utf8"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/gateway/internal/edge"
)

// writePlace responds with a place as WriteMessage does, but without reflection, since this is the
// response to the most frequent poll.
func writePlace(w http.ResponseWriter, p *queuev1.Place) error {
	body, ok := appendPlace(make([]byte, 0, 640), p)
	if !ok {
		return WriteMessage(w, http.StatusOK, p)
	}
	writeJSON(w, http.StatusOK, edge.NoStore, body)
	return nil
}

// appendPlace appends the JSON that wire.Marshal returns for p. ok is false, and the result
// useless, if a string of p must be escaped in JSON.
func appendPlace(b []byte, p *queuev1.Place) (_ []byte, ok bool) {
	ok = true
	text := func(key string, s *string) {
		if s == nil {
			return
		}
		ok = ok && isPlain(*s)
		b = append(append(append(append(b, key...), '"'), *s...), '"')
	}
	number := func(key string, n int64) { b = strconv.AppendInt(append(b, key...), n, 10) }

	text(`{"status":`, &p.Status)
	b = strconv.AppendBool(append(b, `,"queued":`...), p.GetQueued())
	number(`,"position":`, p.GetPosition())
	number(`,"peopleAhead":`, p.GetPeopleAhead())
	number(`,"peopleBehind":`, p.GetPeopleBehind())
	if p.EstimatedWait != nil {
		number(`,"estimatedWait":`, p.GetEstimatedWait())
	}
	number(`,"nextPoll":`, p.GetNextPoll())
	number(`,"currentUsers":`, p.GetCurrentUsers())
	number(`,"threshold":`, p.GetThreshold())
	number(`,"queueSize":`, p.GetQueueSize())
	text(`,"eventTitle":`, p.EventTitle)
	text(`,"artistName":`, p.ArtistName)
	text(`,"entryToken":`, p.EntryToken)
	if p.ExpiresAt != nil {
		number(`,"expiresAt":`, p.GetExpiresAt())
	}
	text(`,"ticket":`, p.Ticket)
	text(`,"saleStatus":`, p.SaleStatus)
	if p.Paused != nil {
		b = strconv.AppendBool(append(b, `,"paused":`...), p.GetPaused())
	}
	if p.Entitled != nil {
		b = strconv.AppendBool(append(b, `,"entitled":`...), p.GetEntitled())
	}
	if p.GeneralOpensAt != nil {
		number(`,"generalOpensAt":`, p.GetGeneralOpensAt())
	}
	return append(b, '}'), ok
}

// isPlain reports whether s needs no escaping in a JSON string.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(s)
}
