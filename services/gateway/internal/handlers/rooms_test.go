package handlers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/wire"
	"urr.guru/services/gateway/internal/roomstate"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// The hand-written response to a waiting visitor equals the JSON form of the message.
func TestWaitingResponseMatchesTheMessage(t *testing.T) {
	t.Parallel()
	rooms := roomstate.New()
	rooms.ApplyCounter(&vwrv1.Counter{EventId: "e", Active: true, Serving: 1 << 40, Rate: 3})
	for _, sale := range []*string{nil, new("ON_SALE"), new("SOLD_OUT")} {
		wait := new(int64(334))
		if sale != nil {
			rooms.SetSaleStatuses(map[string]string{"e": *sale})
			if *sale == "SOLD_OUT" {
				wait = nil
			}
		}
		got := appendWaiting(nil, rooms.Get("e"), 1<<40+1000, rooms.Get("e").Halted())
		m := &vwrv1.Checked{}
		require.NoError(t, wire.Unmarshal(got, m))
		require.Empty(t, cmp.Diff(&vwrv1.Checked{
			Position: 1<<40 + 1000, ServingCounter: 1 << 40, Ahead: 1000, EstimatedWait: wait, NextPoll: m.GetNextPoll(), SaleStatus: sale,
		}, m, protocmp.Transform()))
		want, err := wire.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

// The hand-written response to a user in a lobby equals the JSON form of the message.
func TestLobbyResponseMatchesTheMessage(t *testing.T) {
	t.Parallel()
	rooms := roomstate.New()
	now := time.UnixMilli(1_800_000_000_000)
	starts := now.Add(time.Hour).UnixMilli()
	rooms.ApplyCounter(&vwrv1.Counter{EventId: "e", Active: true, OpenedAt: starts, Lobby: &vwrv1.Lobby{StartsAt: starts}})
	for _, sale := range []*string{nil, new("SCHEDULED")} {
		if sale != nil {
			rooms.SetSaleStatuses(map[string]string{"e": *sale})
		}
		got := appendLobbyPoll(nil, rooms.Get("e"), uuid.New(), now)
		m := &vwrv1.Checked{}
		require.NoError(t, wire.Unmarshal(got, m))
		require.Empty(t, cmp.Diff(&vwrv1.Checked{
			NextPoll: m.GetNextPoll(), SaleStatus: sale, Phase: new("LOBBY"), OpensAt: new(now.Add(time.Hour).UnixMilli()), AsksAt: new(now.Add(time.Hour).UnixMilli()),
		}, m, protocmp.Transform()))
		want, err := wire.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

func TestProviderNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"sandbox": true, "toss-2": true, "Sandbox": false, "a_b": false, "a/b": false, "": true, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": false} {
		require.Equal(t, ok, validProviderName(name), name)
	}
}
