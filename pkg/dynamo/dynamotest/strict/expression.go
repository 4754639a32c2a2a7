package strict

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// expression evaluates DynamoDB's conditions and updates on an item. It knows what this repository
// uses: attributes without paths, =, <>, <, <=, >, >=, AND, OR, NOT, attribute_exists,
// attribute_not_exists, begins_with, if_not_exists, +, -, and sets of strings and numbers.
type expression struct {
	tokens []string
	names  map[string]string
	values item
	stored item
}

var token = regexp.MustCompile(`[#:]?\w+|<>|<=|>=|[=<>(),+-]`)

func (w *write) on(text string, stored item) *expression {
	return &expression{token.FindAllString(text, -1), w.ExpressionAttributeNames, w.ExpressionAttributeValues, stored}
}

// invalid is the panic of an expression that cannot be evaluated.
type invalid string

// holds evaluates a condition; the empty one holds.
func (e *expression) holds() bool {
	if len(e.tokens) == 0 {
		return true
	}
	got := e.or()
	if len(e.tokens) > 0 {
		panic(invalid("unexpected " + e.tokens[0]))
	}
	return got
}

func (e *expression) peek(text string) bool { return len(e.tokens) > 0 && e.tokens[0] == text }

func (e *expression) next() (text string) {
	if len(e.tokens) == 0 {
		panic(invalid("unexpected end"))
	}
	text, e.tokens = e.tokens[0], e.tokens[1:]
	return text
}

func (e *expression) skip(text string) bool {
	if e.peek(text) {
		e.next()
		return true
	}
	return false
}

func (e *expression) expect(text string) {
	if got := e.next(); got != text {
		panic(invalid(fmt.Sprintf("%s instead of %s", got, text)))
	}
}

func (e *expression) or() bool {
	got := e.and()
	for e.skip("OR") {
		got = e.and() || got
	}
	return got
}

func (e *expression) and() bool {
	got := e.not()
	for e.skip("AND") {
		got = e.not() && got
	}
	return got
}

func (e *expression) not() bool {
	if e.skip("NOT") {
		return !e.not()
	}
	if e.skip("(") {
		defer e.expect(")")
		return e.or()
	}
	switch left := e.next(); left {
	case "attribute_exists", "attribute_not_exists":
		e.expect("(")
		defer e.expect(")")
		return (e.operand(e.next()) != nil) == (left == "attribute_exists")
	case "begins_with":
		e.expect("(")
		_, text := decode(e.operand(e.next()))
		e.expect(",")
		_, prefix := decode(e.operand(e.next()))
		e.expect(")")
		return strings.HasPrefix(text, prefix)
	default:
		a, operator := e.operand(left), e.next()
		return compare(a, e.operand(e.next()), operator)
	}
}

func (e *expression) name(text string) string { return cmp.Or(e.names[text], text) }

// operand returns the value of an attribute or parameter; nil if the attribute is absent.
func (e *expression) operand(text string) json.RawMessage {
	if text == "if_not_exists" {
		e.expect("(")
		stored := e.operand(e.next())
		e.expect(",")
		other := e.operand(e.next())
		e.expect(")")
		if stored != nil {
			return stored
		}
		return other
	}
	if strings.HasPrefix(text, ":") {
		v, ok := e.values[text]
		if !ok {
			panic(invalid("no value " + text))
		}
		return v
	}
	return e.stored[e.name(text)]
}

// decode returns the type and the text of a string, number, binary or boolean.
func decode(v json.RawMessage) (kind, text string) {
	var typed map[string]any
	_ = json.Unmarshal(v, &typed) // absent: of no type
	for kind, value := range typed {
		return kind, fmt.Sprint(value)
	}
	return "", ""
}

func number(v json.RawMessage) float64 {
	_, text := decode(v)
	n, _ := strconv.ParseFloat(text, 64) // absent: 0
	return n
}

func compare(a, b json.RawMessage, operator string) bool {
	kindA, textA := decode(a)
	kindB, textB := decode(b)
	if operator == "<>" {
		return !bytes.Equal(a, b)
	}
	if a == nil || b == nil || kindA != kindB {
		return false
	}
	order := cmp.Compare(textA, textB)
	if kindA == "N" {
		order = cmp.Compare(number(a), number(b))
	}
	switch operator {
	case "=":
		return order == 0
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	}
	panic(invalid("unknown operator " + operator))
}

// update changes out as an update expression says; its operands are those of e.stored.
func (e *expression) update(out item) {
	for len(e.tokens) > 0 {
		section := e.next()
		for again := true; again; again = e.skip(",") {
			name := e.name(e.next())
			switch section {
			case "SET":
				e.expect("=")
				out[name] = e.sum()
			case "REMOVE":
				delete(out, name)
			case "ADD":
				out[name] = add(e.stored[name], e.operand(e.next()))
			case "DELETE":
				if out[name] = without(e.stored[name], e.operand(e.next())); out[name] == nil {
					delete(out, name)
				}
			default:
				panic(invalid("unknown section " + section))
			}
		}
	}
}

func (e *expression) sum() json.RawMessage {
	left := e.operand(e.next())
	switch {
	case e.skip("+"):
		return numeric(number(left) + number(e.operand(e.next())))
	case e.skip("-"):
		return numeric(number(left) - number(e.operand(e.next())))
	}
	return left
}

func numeric(n float64) json.RawMessage {
	return json.RawMessage(`{"N":"` + strconv.FormatFloat(n, 'f', -1, 64) + `"}`)
}

func add(stored, added json.RawMessage) json.RawMessage {
	kind, members := set(added)
	if kind == "N" {
		return numeric(number(stored) + number(added))
	}
	_, old := set(stored)
	members = append(members, old...)
	slices.Sort(members)
	return encodeSet(kind, slices.Compact(members))
}

func without(stored, removed json.RawMessage) json.RawMessage {
	_, gone := set(removed)
	kind, members := set(stored)
	return encodeSet(kind, slices.DeleteFunc(members, func(m string) bool { return slices.Contains(gone, m) }))
}

// set returns the members of a set; nil for other types.
func set(v json.RawMessage) (kind string, members []string) {
	var typed map[string]json.RawMessage
	_ = json.Unmarshal(v, &typed) // absent: of no type
	for kind, value := range typed {
		_ = json.Unmarshal(value, &members) // a number has no members
		return kind, members
	}
	return "", nil
}

func encodeSet(kind string, members []string) json.RawMessage {
	if len(members) == 0 {
		return nil
	}
	return answerOf(0, map[string][]string{kind: members}).Body
}
