package audit_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/audit"
)

func TestActsGoToKafka(t *testing.T) {
	t.Parallel()
	b := &broker{}
	g := newGateway(t, b, nil, "")
	a := act(false)
	require.NoError(t, g.RecordAct(t.Context(), a))
	r := b.recs[0]
	require.Equal(t, "audit-events", r.Topic)
	require.Equal(t, "ann", string(r.Key))
	require.Equal(t, a.ID.String(), r.Headers[kafka.HeaderID])
	require.Equal(t, "OPERATOR_ACTED", r.Headers[kafka.HeaderType])
	e := decoded(t, r)
	require.Equal(t, `{"threshold":5}`, e.GetBody())
	require.Len(t, e.GetBodySha256(), 64)
	require.Equal(t, noon, e.GetOccurredAt().AsTime())

	g.run()
	a.Body = nil // it is read only once
	g.RecordOutcome(a, audit.Outcome{Status: 409, Code: "CONFLICT"})
	testkit.Until(t, func() bool { return len(b.acts(t, "OPERATOR_ACT_ENDED")) == 1 }, "the outcome")
	outcome := b.recs[1]
	require.NotEqual(t, r.Headers[kafka.HeaderID], outcome.Headers[kafka.HeaderID], "an event of its own")
	require.Equal(t, a.ID.String(), decoded(t, outcome).GetActId())
	require.Equal(t, e.GetBody(), decoded(t, outcome).GetBody())
	require.EqualValues(t, 409, decoded(t, outcome).GetStatus())
	require.Equal(t, "CONFLICT", decoded(t, outcome).GetCode())
}

// If the client disconnects before its act is recorded, the act is not forwarded.
func TestCancelledActs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := downBroker()
	err := newGateway(t, b, nil, "").RecordAct(ctx, act(true))
	require.ErrorIs(t, err, context.Canceled)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	price := `{"price":` + strings.Repeat("9", 9000) + `}`
	spaces := strings.Repeat(" ", 8<<10)
	long := `{"title":"` + strings.Repeat("x", 64<<10) + `"}`
	for name, c := range map[string]struct{ body, kept, event string }{
		"none":               {body: "", kept: ""},
		"as it was sent":     {body: `{ "userId": "bob", "n": 12345678901234567890 }`, kept: `{"userId":"bob","n":12345678901234567890}`},
		"hidden in spaces":   {body: spaces + `{"price":` + spaces + `0}`, kept: `{"price":0}`},
		"large":              {body: price, kept: price},
		"a secret":           {body: `{"n":12345678901234567890,"clientSecret":"hush"}`, kept: `{"clientSecret":"***","n":12345678901234567890}`},
		"a secret inside":    {body: `{"a":[{"Password":"hush"},{"apiToken":{"x":"hush"}}]}`, kept: `{"a":[{"Password":"***"},{"apiToken":"***"}]}`},
		"names its event":    {body: `{"eventId":"sale-1"}`, kept: `{"eventId":"sale-1"}`, event: "sale-1"},
		"names no event":     {body: `{"eventId":"a b"}`, kept: `{"eventId":"a b"}`},
		"too long":           {body: long},
		"no JSON":            {body: `{"password":"hush"`},
		"two values":         {body: `{} {"password":"hush"}`},
		"no UTF-8":           {body: "{\"a\":\"\xff\"}"},
		"a list":             {body: `[1]`, kept: `[1]`},
		"an escaped zero":    {body: `{"a":"\u0000"}`, kept: `{"a":"\u0000"}`},
		"an escaped member":  {body: `{"pass\u0077ord":"hush"}`, kept: `{"password":"***"}`},
		"an empty object":    {body: `{}`, kept: `{}`},
		"a repeated member":  {body: `{"token":"hush","token":1}`, kept: `{"token":"***"}`},
		"a null in a secret": {body: `{"token":null}`, kept: `{"token":"***"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &broker{}
			a := act(false)
			a.Body, a.EventID = []byte(c.body), ""
			require.NoError(t, newGateway(t, b, nil, "").RecordAct(t.Context(), a))
			e := decoded(t, b.recs[0])
			require.Equal(t, c.kept, e.GetBody())
			require.Equal(t, c.event, e.GetEventId())
			require.Equal(t, c.body == "", e.GetBodySha256() == "")
			require.NotContains(t, string(b.recs[0].Value), "hush")
		})
	}
}
