package main

func answerQueue(line []byte) any { return answer{Error: "not a history"} }
