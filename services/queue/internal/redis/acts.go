package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

// Names under which the script "set" stores operators' acts, one per setting or blocked user.
const (
	settingThreshold = "threshold"
	settingPaused    = "paused"
	settingUser      = "user:" // followed by the user's id
)

func (s *Store) Act(ctx context.Context, eventID string, known line.KnownState, c line.SettingsChange) (line.LineState, int64, error) {
	setting, value := encodeAct(c)
	r, err := s.runScript(ctx, scriptSet, eventID, nil, append(s.scriptArgs(known, false), "act", setting, value, c.Act, line.MaxBlockedUsers))
	if err != nil {
		return line.LineState{}, 0, err
	}
	n, err := r.parseInts(1)
	if err != nil {
		return line.LineState{}, 0, fmt.Errorf("act: %w", err)
	}
	if r.state.Exists() && n[0] == 0 {
		return r.state, 0, errs.ErrTooManyBlocked
	}
	return r.state, n[0], nil
}

func (s *Store) UpdatePendingActs(
	ctx context.Context, eventID string, known line.KnownState, decided, lost []line.SettingsChange,
) (line.LineState, []line.SettingsChange, error) {
	args := append(s.scriptArgs(known, false), "acts", len(decided))
	for _, c := range decided {
		setting, _ := encodeAct(c)
		args = append(args, setting, c.Act)
	}
	for _, c := range lost {
		setting, value := encodeAct(c)
		args = append(args, setting, value, c.Act)
	}
	r, err := s.runScript(ctx, scriptSet, eventID, nil, args)
	if err != nil || !r.state.Exists() {
		return line.LineState{}, nil, err
	}
	pending, err := decodeActs(r.result)
	return r.state, pending, err
}

func encodeAct(c line.SettingsChange) (setting, value string) {
	switch {
	case c.Threshold != nil:
		return settingThreshold, strconv.FormatInt(*c.Threshold, 10)
	case c.Paused != nil:
		return settingPaused, flagArg(*c.Paused)
	case c.Block != "":
		return settingUser + c.Block, flagArg(true)
	default:
		return settingUser + c.Unblock, flagArg(false)
	}
}

// decodeActs decodes the pending acts in a reply, a flat list of setting, value and order number.
func decodeActs(result []any) ([]line.SettingsChange, error) {
	if len(result) != 1 {
		return nil, fmt.Errorf("acts: unexpected %v", result)
	}
	flat, ok := result[0].([]any)
	if !ok || len(flat)%3 != 0 {
		return nil, fmt.Errorf("acts: unexpected %v", result)
	}
	var acts []line.SettingsChange
	for i := 0; i < len(flat); i += 3 {
		setting, ok1 := flat[i].(string)
		value, ok2 := flat[i+1].(string)
		order, ok3 := flat[i+2].(int64)
		if !ok1 || !ok2 || !ok3 {
			return nil, fmt.Errorf("acts: unexpected %v", flat[i:i+3])
		}
		c, err := decodeAct(setting, value)
		if err != nil {
			return nil, err
		}
		c.Act = order
		acts = append(acts, c)
	}
	return acts, nil
}

func decodeAct(setting, value string) (c line.SettingsChange, err error) {
	on := value == flagArg(true)
	user, isUser := strings.CutPrefix(setting, settingUser)
	switch {
	case setting == settingThreshold:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return c, fmt.Errorf("act on the threshold: %w", err)
		}
		c.Threshold = &n
	case setting == settingPaused:
		c.Paused = &on
	case isUser && on:
		c.Block = user
	case isUser:
		c.Unblock = user
	default:
		return c, fmt.Errorf("act on an unknown setting %q", setting)
	}
	return c, nil
}
