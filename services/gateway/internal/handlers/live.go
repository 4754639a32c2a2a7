package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/live"
)

const (
	// liveLife bounds a stream, so that one whose client has vanished ends, and streams spread over all
	// gateways again after a rollout.
	liveLife = 10 * time.Minute
	// heartbeatEvery is the interval of heartbeats on a stream without figures, below the idle time-outs
	// of proxies.
	heartbeatEvery = 5 * time.Second
)

// LiveHandlers serves the live figures of events.
type LiveHandlers struct {
	Hub    *live.Hub
	Tokens *identity.Verifier
}

// Figures streams the figures of an event until the client leaves, the session ends, or the process
// stops.
func (h *LiveHandlers) Figures(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	listener, err := h.Hub.Listen(q.EventInPath(), q.Caller()) //nolint:contextcheck // a feed outlives its first listener
	if err != nil {
		return err
	}
	defer listener.Leave()
	stream, err := openStream(w)
	if err != nil || r.Method == http.MethodHead {
		return nil // after an error the client has left
	}
	ctx, cancel := context.WithTimeout(r.Context(), liveLife)
	defer cancel()
	heartbeat := time.NewTicker(heartbeatEvery)
	defer heartbeat.Stop()
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-h.Hub.Done():
			return nil
		case figures := <-listener.C:
			if ended := h.sessionEnded(q); ended != nil {
				_ = stream.writeEvent("end", ended) // the stream ends in any case
				return nil
			}
			heartbeat.Reset(heartbeatEvery)
			err = stream.writeData(figures)
		case <-heartbeat.C:
			err = stream.writeHeartbeat()
		}
	}
	return nil
}

// sessionEnded returns the stream's last data if the session has expired or was revoked; else nil.
func (h *LiveHandlers) sessionEnded(q *edge.Request) []byte {
	c, err := h.Tokens.Session(q.Header)
	if err == nil && c.ID == q.Session.ID {
		return nil
	}
	if err == nil {
		err = errs.ErrSessionInvalid
	}
	data, _ := json.Marshal(map[string]string{"code": errs.From(err).Reason}) // strings always marshal
	return data
}
