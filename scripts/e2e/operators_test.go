package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// operatedLine is an event's line, on two gateways and two queue replicas, with an operator.
type operatedLine struct {
	t        *testing.T
	p        *harness.Platform
	event    string
	operator *harness.Client
}

// lineStatus is the part of an operator's view of a line that the test compares.
type lineStatus struct {
	Waiting, Active, Epoch int64
	Paused                 bool
	Pauses                 []string
}

func startOperatedLine(t *testing.T) *operatedLine {
	t.Helper()
	p := harness.Start(t, harness.Options{
		Services: []string{platform.Ticket, platform.Queue, platform.Gateway},
		Replicas: map[string]int{platform.Queue: 2, platform.Gateway: 2},
		Env: map[string][]string{
			platform.Gateway: {"VWR_ADDR="}, // without tier 1
			platform.Queue:   {"QUEUE_RECOVERY_PAUSE_SECONDS=2"},
		},
	})
	return &operatedLine{t: t, p: p, event: newSale(t, p), operator: p.Operator()}
}

// act sends an operator's act to a gateway.
func (l *operatedLine) act(gateway int, act string, body, into any) {
	l.t.Helper()
	l.operator.AtReplica(gateway).MustCall(l.t.Context(), http.MethodPost, "/api/v1/queue/admin/"+l.event+"/"+act, body, into)
}

func (l *operatedLine) status(gateway int) (s lineStatus) {
	l.t.Helper()
	l.operator.AtReplica(gateway).MustCall(l.t.Context(), http.MethodGet, "/api/v1/queue/admin/"+l.event, nil, &s)
	return s
}

// visitor returns a user who has joined the line and waits.
func (l *operatedLine) visitor() *buyer {
	l.t.Helper()
	b := &buyer{t: l.t, user: "user-" + uuid.NewString()[:8], event: l.event}
	b.Client = l.p.Client(b.user)
	l.p.Eventually(func(ctx context.Context) error {
		status, err := place(ctx, b.Client, l.event)
		if err == nil && status != "queued" {
			err = fmt.Errorf("the visitor is %s", status)
		}
		return err
	})
	return b
}

// awaitTicks waits until the queue service has processed two more ticks of the line.
func (l *operatedLine) awaitTicks() {
	l.t.Helper()
	seen := make(map[string]bool)
	l.p.Eventually(func(ctx context.Context) error {
		at, err := l.p.Redis().HGet(ctx, "{"+l.event+"}:line", "tickAt").Result()
		seen[at] = true
		if err == nil && len(seen) < 3 {
			err = fmt.Errorf("ticked at %v", seen)
		}
		return err
	})
}

// awaitPlace waits until the visitor's status at each gateway is the wanted one.
func (l *operatedLine) awaitPlace(b *buyer, want string) {
	l.t.Helper()
	for i := range 2 {
		l.p.Eventually(func(ctx context.Context) error {
			status, err := place(ctx, b.AtReplica(i), l.event)
			if err == nil && status != want {
				err = fmt.Errorf("the visitor is %s at gateway %d, not %s", status, i, want)
			}
			return err
		})
	}
}

// withToken returns a copy of the visitor that sends the entry token as a header to each gateway.
func (l *operatedLine) withToken(b *buyer) *buyer {
	l.t.Helper()
	var at struct{ EntryToken string }
	l.p.Client(b.user).MustCall(l.t.Context(), http.MethodPost, "/api/v1/queue/check/"+l.event, map[string]any{}, &at)
	require.NotEmpty(l.t, at.EntryToken)
	other := *b
	other.Client = b.With("x-queue-entry-token", at.EntryToken)
	return &other
}

// reserve tries to hold the seat twice at each gateway and returns the answers. The calls of each
// gateway go to both queue replicas.
func (l *operatedLine) reserve(b *buyer, seat string) (codes []string) {
	l.t.Helper()
	for i := range 4 {
		a := b.AtReplica(i%2).With("Idempotency-Key", uuid.NewString()).CallWhileOverloaded(l.t.Context(), http.MethodPost, "/api/v1/seats/reserve",
			map[string]any{"eventId": l.event, "seatIds": []string{seat}})
		codes = append(codes, fmt.Sprintf("%d %s", a.Status, a.Code()))
	}
	return codes
}

var (
	// reserved are the answers if the first attempt holds the seat: for the rest it is taken.
	reserved = []string{"201 ", "409 SEAT_TAKEN", "409 SEAT_TAKEN", "409 SEAT_TAKEN"}
	refused  = []string{"403 SLOT_ENDED", "403 SLOT_ENDED", "403 SLOT_ENDED", "403 SLOT_ENDED"}
)

// requireBlocked requires that every gateway refuses the visitor, in the visitor's language.
func (l *operatedLine) requireBlocked(b *buyer) {
	l.t.Helper()
	for i, message := range []struct{ lang, detail string }{{"en", "Your account may not join this line."}, {"ko", "이 대기열에 참여할 수 없는 계정입니다."}} {
		for method, call := range map[string]string{http.MethodPost: "check", http.MethodGet: "status"} {
			l.p.Eventually(func(ctx context.Context) error {
				a, err := b.AtReplica(i).With("Accept-Language", message.lang).Call(ctx, method, "/api/v1/queue/"+call+"/"+l.event, nil)
				var problem struct{ Code, Detail string }
				if err == nil {
					err = a.Decode(&problem)
				}
				if err == nil && (a.Status != http.StatusForbidden || problem.Code != "USER_BLOCKED" || problem.Detail != message.detail) {
					err = fmt.Errorf("%s answered %d %s", call, a.Status, a.Body)
				}
				return err
			})
		}
	}
}

// TestOperatorsActOnALine pauses and resumes a line, revokes a slot, blocks and unblocks a user.
// Each act takes effect at every replica, whichever gateway received it. A pause and a block are
// still in force after Redis has lost all data.
func TestOperatorsActOnALine(t *testing.T) {
	t.Parallel()
	l := startOperatedLine(t)
	first, second := newBuyer(t, l.p, l.event), newBuyer(t, l.p, l.event)

	l.act(0, "pause", map[string]any{}, nil)
	w := l.visitor()
	l.awaitTicks()
	l.awaitPlace(w, "queued")
	for i := range 2 {
		s := l.status(i)
		require.Equal(t, lineStatus{Waiting: 1, Active: 2, Epoch: s.Epoch, Paused: true, Pauses: []string{"OPERATOR"}}, s)
	}
	l.act(1, "resume", map[string]any{}, nil)
	l.awaitPlace(w, "active")
	require.Empty(t, l.status(0).Pauses)

	l.revoke(first)
	l.block(second)
	l.wipe(second)
}

func (l *operatedLine) revoke(b *buyer) {
	l.t.Helper()
	b = l.withToken(b)
	require.Equal(l.t, reserved, l.reserve(b, "A-1-1"), "before")
	var revoked struct{ Revoked bool }
	sent := 0
	a, err := harness.RepeatWhileOverloaded(l.t.Context(), l.t, func() (*harness.Answer, error) {
		sent++
		return l.operator.AtReplica(0).Call(l.t.Context(), http.MethodPost, "/api/v1/queue/admin/"+l.event+"/revoke", map[string]any{"userId": b.user})
	})
	require.NoError(l.t, err)
	require.Equal(l.t, http.StatusOK, a.Status, "%s", a.Body)
	require.NoError(l.t, a.Decode(&revoked))
	if sent == 1 { // otherwise an earlier attempt may have revoked it
		require.True(l.t, revoked.Revoked)
	}
	require.Equal(l.t, refused, l.reserve(b, "A-1-2"))
	l.act(1, "revoke", map[string]any{"userId": b.user}, &revoked)
	require.False(l.t, revoked.Revoked, "there is no slot any more")
	l.awaitPlace(b, "active") // the user joins again and is admitted again
	require.Equal(l.t, reserved, l.reserve(l.withToken(b), "A-1-2"))
}

func (l *operatedLine) block(b *buyer) {
	l.t.Helper()
	b = l.withToken(b)
	require.Equal(l.t, reserved, l.reserve(b, "A-1-3"), "before")
	l.act(1, "block", map[string]any{"userId": b.user}, nil)
	require.Equal(l.t, refused, l.reserve(b, "A-1-4"))
	l.requireBlocked(b)
	stranger := l.p.Client(b.user, "staff")
	a := stranger.CallWhileOverloaded(l.t.Context(), http.MethodPost, "/api/v1/queue/admin/"+l.event+"/unblock", map[string]any{"userId": b.user})
	require.Equal(l.t, "ROLE_REQUIRED", a.Code())
}

// wipe deletes all Redis data of the paused line. A new visitor waits until the line is resumed.
func (l *operatedLine) wipe(blocked *buyer) {
	l.t.Helper()
	l.act(0, "pause", map[string]any{}, nil)
	before := l.status(0)
	require.NoError(l.t, l.p.Redis().FlushDB(l.t.Context()).Err())
	l.p.Eventually(func(context.Context) error {
		if s := l.status(1); s.Epoch <= before.Epoch || len(s.Pauses) != 1 || s.Pauses[0] != "OPERATOR" {
			return fmt.Errorf("the line is %+v", s)
		}
		return nil
	})
	l.requireBlocked(blocked)
	w := l.visitor()
	l.awaitTicks()
	l.awaitPlace(w, "queued")
	l.act(0, "resume", map[string]any{}, nil)
	l.awaitPlace(w, "active")
	l.requireBlocked(blocked)
	l.act(0, "unblock", map[string]any{"userId": blocked.user}, nil)
	l.awaitPlace(blocked, "active")
}
