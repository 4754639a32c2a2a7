package redis

import (
	"fmt"
	"strconv"

	"urr.guru/services/queue/internal/line"
)

// scriptReply is a script's reply: the line's state, then the script's own result.
type scriptReply struct {
	state  line.LineState
	result []any
}

// parseReply parses a reply. An empty reply means that the line does not exist.
func parseReply(v any) (scriptReply, error) {
	parts, ok := v.([]any)
	if !ok {
		return scriptReply{}, fmt.Errorf("script answered %T", v)
	}
	if len(parts) == 0 {
		return scriptReply{}, nil
	}
	numbers, err := parseNumbers(parts[0], len(headFields))
	if err != nil {
		return scriptReply{}, fmt.Errorf("script's head: %w", err)
	}
	r := scriptReply{result: parts[1:]}
	for i, n := range numbers {
		headFields[i].set(&r.state, n)
	}
	return r, nil
}

// parseInts parses a result of n numbers. If the line does not exist, all are 0.
func (r scriptReply) parseInts(n int) ([]int64, error) {
	if len(r.result) == 0 && !r.state.Exists() {
		return make([]int64, n), nil
	}
	return parseNumbers(r.result, n)
}

func parseNumbers(v any, n int) ([]int64, error) {
	parts, ok := v.([]any)
	if !ok || len(parts) != n {
		return nil, fmt.Errorf("%d numbers expected, not %v", n, v)
	}
	out := make([]int64, n)
	for i, p := range parts {
		x, ok := p.(int64)
		if !ok {
			return nil, fmt.Errorf("number %d is %T", i, p)
		}
		out[i] = x
	}
	return out, nil
}

func (r scriptReply) parseOutcomes(n int) ([]line.ClaimOutcome, error) {
	if len(r.result) == 0 && !r.state.Exists() {
		return make([]line.ClaimOutcome, n), nil
	}
	items, ok := r.result[0].([]any)
	if !ok || len(items) != n {
		return nil, fmt.Errorf("check answered %d claims with %v", n, r.result)
	}
	out := make([]line.ClaimOutcome, n)
	for i, item := range items {
		o, err := parseOutcome(item)
		if err != nil {
			return nil, fmt.Errorf("check's answer %d: %w", i, err)
		}
		out[i] = o
	}
	return out, nil
}

func parseOutcome(v any) (line.ClaimOutcome, error) {
	a, ok := v.([]any)
	if !ok || len(a) == 0 {
		return line.ClaimOutcome{}, fmt.Errorf("unexpected %v", v)
	}
	switch {
	case a[0] == "A" && len(a) == 4:
		id, ok1 := a[1].(string)
		end, ok2 := a[2].(int64)
		first, ok3 := a[3].(int64)
		if ok1 && ok2 && ok3 {
			return line.ClaimOutcome{State: line.Inside, SlotID: id, End: end, Claimed: first > 0, Entered: first == 2}, nil
		}
	case a[0] == "Q" && (len(a) == 3 || len(a) == 4):
		ahead, ok1 := a[1].(int64)
		text, ok2 := a[2].(string)
		score, err := strconv.ParseInt(text, 10, 64)
		if ok1 && ok2 && err == nil {
			return line.ClaimOutcome{State: line.Waiting, Ahead: ahead, Score: score, Entitled: len(a) == 4}, nil
		}
	default:
		kind, _ := a[0].(string)
		standings := map[string]line.VisitorState{
			"N": line.NotInLine, "P": line.PassTaken, "V": line.PassMissing, "U": line.AnswerMissing, "B": line.Blocked,
		}
		if standing, ok := standings[kind]; ok {
			return line.ClaimOutcome{State: standing}, nil
		}
	}
	return line.ClaimOutcome{}, fmt.Errorf("unexpected %v", v)
}
