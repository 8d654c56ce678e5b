// Package report prints one line for each check: its name, then what came out.
package report

import (
	"fmt"
	"strings"
)

// Check runs the work and prints what it returns, or what describe says of its error.
func Check(name string, describe func(error) string, work func() (any, error)) {
	found, err := work()
	text := fmt.Sprintf("%v", found)
	if err != nil {
		text = describe(err)
	}
	fmt.Printf("%s\t%s\n", name, strings.Join(strings.Fields(text), " "))
}

// Told is an error of a server with the fields that name what it is about.
func Told(state, message string, fields map[string]string) string {
	text := "error " + state + " " + message
	for _, name := range []string{"schema", "table", "column", "type", "constraint", "position", "detail", "hint"} {
		if fields[name] != "" {
			text += " " + name + "=" + fields[name]
		}
	}
	return text
}
