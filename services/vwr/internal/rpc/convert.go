package rpc

import (
	"time"

	"google.golang.org/protobuf/proto"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/room"
)

// phaseLobby is the phase in the answer to users who wait in the lobby.
const phaseLobby = "LOBBY"

func fromAssignResult(a room.AssignResult) *vwrv1.Assigned {
	out := &vwrv1.Assigned{
		RequestId: a.RequestID.String(), Position: a.Position, EstimatedWait: knownEstimate(a.EstimatedWait, a.Position <= a.Serving),
		ServingCounter: a.Serving, NextPoll: a.NextPoll, Ticket: a.Ticket,
	}
	if a.OfUser() {
		out.OfUser = proto.Bool(true)
	}
	return out
}

// knownEstimate returns an estimated wait in seconds. An estimate of 0 s for a position that is not
// served means unknown: the result is nil.
func knownEstimate(seconds int64, served bool) *int64 {
	if seconds == 0 && !served {
		return nil
	}
	return &seconds
}

func fromCheckResult(c room.CheckResult) *vwrv1.Checked {
	out := &vwrv1.Checked{
		Admitted: c.Admitted, Position: c.Position, ServingCounter: c.Serving, Ahead: c.Ahead,
		EstimatedWait: knownEstimate(c.EstimatedWait, c.Admitted), NextPoll: c.NextPoll,
	}
	if c.Token != "" {
		out.Token, out.ExpiresAt = proto.String(c.Token), proto.Int64(c.TokenExpiresAt.Unix())
	}
	if c.Ticket != "" {
		out.Ticket = proto.String(c.Ticket)
	}
	if c.LobbyUntil != 0 {
		out.Phase, out.OpensAt, out.AsksAt = proto.String(phaseLobby), proto.Int64(c.LobbyUntil), proto.Int64(c.AsksAt)
	}
	return out
}

func fromStates(states []room.State) []*vwrv1.Counter {
	out := make([]*vwrv1.Counter, len(states))
	for i, st := range states {
		opening := st.Opening()
		out[i] = &vwrv1.Counter{
			EventId: st.EventID, Active: st.Active, Round: int64(st.Round), Serving: st.Serving, Issued: st.Issued,
			Rate: st.Rate, ConfiguredRate: st.Settings.Rate(), Lobby: fromLobby(st.Lobby),
			ProofOfWork: st.Settings.ProofOfWork, SignIn: st.Settings.SignIn, Next: string(st.Settings.Next), Stalled: st.Stalled,
			OpenedAt: opening.Start.UnixMilli(), SpreadMs: opening.Over.Milliseconds(),
		}
	}
	return out
}

func toStatus(st room.State) *vwrv1.VwrStatus {
	return &vwrv1.VwrStatus{
		EventId: st.EventID, IsActive: st.Active, NextPosition: st.Issued, ServingCounter: st.Serving,
		WaitingCount: st.Waiting(), UpdatedAt: st.UpdatedAt.UnixMilli(), ActivatedAt: int64(st.Round),
		Batch: st.Settings.Batch, IntervalSeconds: int64(st.Settings.Interval / time.Second),
		Inlet: string(st.Settings.Inlet), MaxInFlight: st.Settings.MaxInFlight,
		Claimed: st.Claimed, MeasuredRate: st.Rate, Lobby: fromLobby(st.Lobby),
		ProofOfWork: proto.Int64(st.Settings.ProofOfWork), SignIn: proto.Bool(st.Settings.SignIn), Next: new(string(st.Settings.Next)),
		Expected: proto.Int64(st.Settings.Expected), AskRate: proto.Int64(st.Settings.AskRate), SpreadMs: proto.Int64(st.Opening().Over.Milliseconds()),
	}
}

// fromLobby returns nil for a round without a lobby.
func fromLobby(l room.Lobby) *vwrv1.Lobby {
	if !l.Exists() {
		return nil
	}
	return &vwrv1.Lobby{OpensAt: l.OpensAt, ClosesAt: l.ClosesAt, StartsAt: l.StartsAt, Sized: l.Sized, Shuffled: l.Shuffled}
}
